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

/// Calls `body` with each name of an open directory, without the two dots and in no order, and whether it may
/// be a directory; until that returns false. Holds no more than one name.
package func visitDirectory(_ descriptor: Int32, _ body: (String, _ mayBeDirectory: Bool) -> Bool) {
    let copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard copy >= 0 else { return }
    guard let stream = fdopendir(copy) else {
        close(copy)
        return
    }
    defer { closedir(stream) }
    while let entry = readdir(stream) {
        let name = String(cString: csys_entry_name(entry))
        if name == "." || name == ".." { continue }
        let type = Int32(entry.pointee.d_type)
        // Some file systems do not say.
        guard body(name, type == Int32(DT_DIR) || type == Int32(DT_UNKNOWN)) else { return }
    }
}
