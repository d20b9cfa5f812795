/// Returns the known name that was probably meant by an unknown one, or `nil` if none is close to it.
///
/// Names differ by at most a quarter of the letters of `name`, but by two for short names, and by one for
/// names of up to three letters. A long untrusted name costs no more than a short one.
public func nearestName(to name: String, in known: some Sequence<String>) -> String? {
    let length = name.utf8.count
    let editCountMax = length > 3 ? max(2, length / 4) : 1
    let near = known.filter { abs($0.utf8.count - length) <= editCountMax }
    let closest = near.map { (name: $0, edits: editCount(name, $0)) }.min { $0.edits < $1.edits }
    return closest.flatMap { $0.edits <= editCountMax ? $0.name : nil }
}

/// Returns the number of insertions, deletions and substitutions between two texts (Levenshtein).
private func editCount(_ one: String, _ other: String) -> Int {
    let other = Array(other.utf8)
    var row = Array(0...other.count)
    for (index, letter) in one.utf8.enumerated() {
        var diagonal = row[0]
        row[0] = index + 1
        for (column, otherLetter) in other.enumerated() {
            let changed = diagonal + (letter == otherLetter ? 0 : 1)
            diagonal = row[column + 1]
            row[column + 1] = min(changed, row[column] + 1, row[column + 1] + 1)
        }
    }
    return row[other.count]
}
