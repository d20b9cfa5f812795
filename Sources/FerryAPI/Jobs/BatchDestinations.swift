internal import FerryCore

/// Destinations of the jobs of a batch.
///
/// Two jobs that replace the same file must run one after the other: without a dependency between them,
/// direct or indirect, either could end last.
struct BatchDestinations {
    /// The jobs, in the order of the batch.
    private let jobs: [NewJob]
    /// Jobs that are not created, because an earlier one has their unique key.
    private let repetitions: Set<JobID>

    init(_ jobs: [NewJob]) {
        self.jobs = jobs
        var keys: Set<String> = []
        repetitions = Set(
            jobs.lazy.filter { job in job.spec.unique.map { !keys.insert($0.key).inserted } ?? false }
                .map(\.id))
    }

    /// Returns an error for each job that replaces the file of another one without a dependency between them.
    /// `place` returns the JSON Pointer to a job.
    func conflicts(place: (Int) -> String) -> [FieldError] {
        guard hasRepeatedPath else { return [] }
        let pairs = pairs
        let areOrdered = areOrdered(pairs)
        var others: [Int: Int] = [:]
        for (pair, isOrdered) in zip(pairs, areOrdered) where !isOrdered {
            if others[pair.first] == nil { others[pair.first] = pair.second }
            if others[pair.second] == nil { others[pair.second] = pair.first }
        }
        let errors = ValidationErrors()
        for (job, other) in others.sorted(by: { $0.key < $1.key }) {
            errors.add(
                "\(place(job))/destination/path", "duplicate",
                "\(place(other)) replaces the same file. Let one of the two jobs depend on the other, or "
                    + "name another path or if_exists.")
        }
        return errors.all
    }

    /// Path of the file that a job replaces, or `nil` if it replaces none that its destination names. Of jobs
    /// with one unique key only the first is created; the others replace nothing.
    private func path(of job: NewJob) -> String? {
        guard let path = job.spec.contentLocation.path, let destination = job.spec.destination,
            destination.ifExists == .replace, !destination.isDirectory, !repetitions.contains(job.id)
        else { return nil }
        return path
    }

    /// `true` if two jobs may replace the same file. Compares texts, in which equal ones can have different
    /// bytes.
    private var hasRepeatedPath: Bool {
        guard jobs.count > 1 else { return false }
        var paths: Set<String> = []
        return jobs.contains { job in path(of: job).map { !paths.insert($0).inserted } ?? false }
    }

    /// Jobs that replace the same file, each with the next one in the batch. If each job of a file has a
    /// dependency on the one before it, all of them have an order.
    private var pairs: [(first: Int, second: Int)] {
        var last: [[UInt8]: Int] = [:]
        var pairs: [(first: Int, second: Int)] = []
        for (index, job) in jobs.enumerated() {
            guard let path = path(of: job) else { continue }
            if let first = last.updateValue(index, forKey: Array(path.utf8)) { pairs.append((first, index)) }
        }
        return pairs
    }

    /// Returns for each pair whether the second job depends on the first one, directly or indirectly. Follows
    /// all dependencies once for 64 pairs, so that no batch takes longer than its size allows.
    private func areOrdered(_ pairs: [(first: Int, second: Int)]) -> [Bool] {
        let indexes = Dictionary(
            jobs.enumerated().map { ($0.element.id, $0.offset) }, uniquingKeysWith: { one, _ in one })
        let dependencies = jobs.map { job in job.spec.schedule.dependsOn.compactMap { indexes[$0] } }
        let dependsOnGroups = jobs.contains { job in
            job.spec.schedule.dependencies.contains { $0.group != nil }
        }
        var areOrdered: [Bool] = []
        for start in stride(from: 0, to: pairs.count, by: 64) {
            let pairs = pairs[start..<min(start + 64, pairs.count)]
            // One bit for each pair: the job is the first one of the pair, or depends on it.
            var masks = [UInt64](repeating: 0, count: jobs.count)
            for (bit, pair) in pairs.enumerated() { masks[pair.first] |= 1 << UInt64(bit) }
            // Those of the jobs of each group so far.
            var groupMasks: [String: UInt64] = [:]
            // Dependencies precede the jobs that name them.
            for (index, dependencies) in dependencies.enumerated() {
                for dependency in dependencies { masks[index] |= masks[dependency] }
                guard dependsOnGroups else { continue }
                let spec = jobs[index].spec
                for name in spec.schedule.groupsOfDependencies { masks[index] |= groupMasks[name] ?? 0 }
                if let group = spec.group { groupMasks[group, default: 0] |= masks[index] }
            }
            areOrdered += pairs.enumerated().map { bit, pair in masks[pair.second] & 1 << UInt64(bit) != 0 }
        }
        return areOrdered
    }
}
