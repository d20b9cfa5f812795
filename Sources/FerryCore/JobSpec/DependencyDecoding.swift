extension JobDecoding {
    /// Reads `depends_on`: identifiers, and in a batch `#/jobs/3`, the position of an earlier job.
    func dependencies(_ fields: inout FieldReader) -> [JobID] {
        guard let values = fields.array("depends_on", countMax: Limits.dependencyCountMax) else { return [] }
        var jobs: [JobID] = []
        for (index, value) in values.enumerated() {
            let place = "\(fields.pointer("depends_on"))/\(index)"
            guard let text = value.string else {
                errors.addWrongType(place, "a string", value)
                continue
            }
            guard let job = job(named: text) else {
                errors.add(
                    place, "invalid_value",
                    text.hasPrefix(batchPrefix)
                        ? "This must be the place of an earlier job of the same batch."
                        : "This is not the identifier of a job.")
                continue
            }
            if jobs.contains(job) {
                errors.add(place, "duplicate", "This job occurs twice.")
            } else {
                jobs.append(job)
            }
        }
        return jobs
    }

    private func job(named text: String) -> JobID? {
        guard text.hasPrefix(batchPrefix) else { return JobID(text) }
        let digits = text.utf8.dropFirst(batchPrefix.utf8.count)
        guard digits.count < 6, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(String(decoding: digits, as: UTF8.self)).flatMap(earlierJob)
    }
}

private let batchPrefix = "#/jobs/"
