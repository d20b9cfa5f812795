import FerryCore

/// Bytes that an attempt may store in a managed file, or in a body that the database keeps, of a tenant whose
/// stored bytes are limited. The store takes back what is reserved with the result of the attempt.
struct StorageAllowance: Sendable {
    private let quotas: TenantQuotas
    private let job: JobID
    private let tenant: String

    /// `nil` if the attempt may store any number of bytes: its tenant has no limit, or its file has a path.
    init?(_ attempt: Attempt, _ quotas: TenantQuotas) {
        guard quotas.limits(of: attempt.tenant)?.storageByteCountMax != nil,
            attempt.spec.contentLocation == .managedFile
        else { return nil }
        (self.quotas, job, tenant) = (quotas, attempt.job, attempt.tenant)
    }

    /// Reserves bytes, those that are reserved included. Throws `storage_quota_exceeded` if the tenant must
    /// not store so many.
    func need(_ byteCount: Int64) throws(TransferError) {
        guard quotas.reserve(byteCount, for: job, of: tenant) else {
            throw TransferError(
                .storageQuotaExceeded, "The file does not fit into what its tenant may store.",
                phase: .receiving, isRetryable: false)
        }
    }
}

extension EngineContext {
    /// `nil` if the attempt may store any number of bytes.
    func allowance(of attempt: Attempt) -> StorageAllowance? {
        StorageAllowance(attempt, configuration.quotas)
    }
}
