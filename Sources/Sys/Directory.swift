import CSys
import Glibc

/// The names in a directory, hidden ones too, without the two dots and in no order; none when it cannot be
/// read.
package func directoryNames(_ path: String) -> [String] {
    guard let stream = opendir(path) else { return [] }
    return takeNames(stream)
}

/// The same for an open directory, whose own position stays where it is.
package func directoryNames(below descriptor: Int32) -> [String] {
    let copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard copy >= 0 else { return [] }
    guard let stream = fdopendir(copy) else {
        close(copy)
        return []
    }
    return takeNames(stream)
}

private func takeNames(_ stream: OpaquePointer) -> [String] {
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
        // Through C: an entry is as long as its name, and Swift would copy the whole array that is declared.
        let name = String(cString: csys_entry_name(entry))
        if name != ".", name != ".." { names.append(name) }
    }
    return names
}
