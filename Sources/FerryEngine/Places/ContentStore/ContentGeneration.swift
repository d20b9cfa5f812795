import FerryCore

/// The generation of the content store: a number that the database and the store have, and that each sweep
/// raises in both. If the store's is higher, the database was set back to an earlier state, and may not name
/// contents that it should.
package enum ContentGeneration {
    /// Key of the object with the number.
    static let key = "generation"
}
