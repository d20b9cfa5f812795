import Curl
import FerryCore
import FerryEngine
import FerryStore
import Glibc
import Logging
import Postgres
import Sys

/// One result of `ferry check`.
private struct Finding {
    let name: String
    let isPassed: Bool
    let detail: String
    /// `true` if the setting works but is probably unintended.
    var isWarning = false
}

/// Checks configuration, database, libraries and disk, and prints the results. With `rows`, also checks all
/// rows of the database. Creates missing directories but changes nothing else. Returns 0 if a service could
/// start here and no row breaks a rule, else 1.
package func check(_ configuration: Configuration, rows: Bool, json: Bool) -> Int32 {
    var findings = [Finding(name: "configuration", isPassed: true, detail: "valid")]
    findings += configuration.unknownSettings.map {
        Finding(name: "environment", isPassed: true, detail: $0.sentence, isWarning: true)
    }
    findings.append(checkLibraries())
    findings.append(checkDisk(configuration))
    let paths = StoragePaths(configuration)
    // Throws only for directories that are missing, which `checkDisk` has reported.
    findings += ((try? paths.exposed() + paths.unwritable()) ?? []).map {
        Finding(name: "storage", isPassed: true, detail: $0, isWarning: true)
    }
    findings += checkContentStore(configuration)
    findings += checkDatabase(configuration, rows: rows)
    if json {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("ok", findings.allSatisfy(\.isPassed))
        writer.name("checks")
        writer.beginArray()
        for finding in findings {
            writer.beginObject()
            writer.member("name", finding.name)
            writer.member("ok", finding.isPassed)
            writer.member("warning", finding.isWarning)
            writer.member("detail", finding.detail)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        print(String(decoding: writer.bytes, as: UTF8.self))
    } else {
        for finding in findings {
            let verdict = finding.isPassed ? (finding.isWarning ? "warn" : "ok  ") : "FAIL"
            print("\(verdict) \(finding.name): \(finding.detail)")
        }
    }
    return findings.allSatisfy(\.isPassed) ? 0 : 1
}

private func checkLibraries() -> Finding {
    switch CurlRuntime.loaded {
    case .success(let library):
        let versions =
            library.supportsSafeHTTP2
            ? "HTTP/2 is safe, HTTP/3 is \(library.hasHTTP3 ? "supported" : "not supported")"
            : "HTTP/1.1 only, because this version may lose bytes with HTTP/2"
        let tls = library.tlsVersion ?? "without TLS"
        let authorities = library.certificateFile.map { "authorities from \($0)" } ?? "no authorities found"
        return Finding(
            name: "libraries", isPassed: true,
            detail: "libcurl \(library.version), \(tls); \(versions); \(authorities)")
    case .failure(let unusable):
        return Finding(name: "libraries", isPassed: false, detail: unusable.reason)
    }
}

private func checkDisk(_ configuration: Configuration) -> Finding {
    do {
        let paths = StoragePaths(configuration)
        try paths.prepare()
        let probe = configuration.dataDirectory + "/check"
        unlink(probe)
        guard try createPrivateFile(probe, [1]) else {
            return Finding(name: "disk", isPassed: false, detail: "\(probe) exists. Remove it.")
        }
        unlink(probe)
        let free = try paths.watched.map(freeBytes)
        let texts = zip(
            ["files", "files of other tenants", "other data", "results"], zip(free, paths.watched)
        ).map {
            "\($1.0 >> 20) MiB free for \($0) in \($1.1)"
        }
        return Finding(
            name: "disk", isPassed: free.allSatisfy { $0 > 64 << 20 }, detail: texts.joined(separator: ", "))
    } catch {
        return Finding(name: "disk", isPassed: false, detail: "\(error)")
    }
}

/// Asks the bucket of the content store for an object. No finding without a bucket.
private func checkContentStore(_ configuration: Configuration) -> [Finding] {
    guard case .bucket(let text) = configuration.contentStore else { return [] }
    let name = "content store"
    do {
        // The object need not exist, so the name of the cluster does not matter.
        let settings = try ContentObjects.Settings(configuration, text, cluster: "check")
        let problem = try ContentObjects.problem(with: settings, clock: DatabaseClock())
        return [Finding(name: name, isPassed: problem == nil, detail: problem ?? "\(text) responds")]
    } catch {
        return [Finding(name: name, isPassed: false, detail: "\(error)")]
    }
}

private func freeBytes(_ directory: String) throws(SystemError) -> UInt64 {
    var information = statvfs()
    guard statvfs(directory, &information) == 0 else { throw SystemError("statvfs \(directory)") }
    return UInt64(information.f_bavail) * UInt64(information.f_frsize)
}

/// Most database sessions of a node with all roles: one for each thread of its store with a connection of its
/// own, and four for reads.
private let sessionCountMax = 16

private func checkSessions(_ url: String) throws(MigrationError) -> Finding {
    guard let free = try Migrator.freeSessionCount(url: url), free < sessionCountMax else {
        return Finding(name: "database", isPassed: true, detail: "responds")
    }
    return Finding(
        name: "database", isPassed: true,
        detail: "responds, but allows only \(max(0, free)) sessions; a node uses up to \(sessionCountMax) "
            + "(max_connections, or the limit of the role or the database)", isWarning: true)
}

private func checkDatabase(_ configuration: Configuration, rows: Bool) -> [Finding] {
    guard let url = configuration.databaseURL else {
        let finding = checkPrivatePostgres(configuration)
        guard rows else { return [finding] }
        let detail = "not checked: name the socket of the private PostgreSQL in FERRY_DATABASE_URL"
        return [finding, Finding(name: "rows", isPassed: false, detail: detail)]
    }
    do {
        let status = try Migrator.check(url: url)
        return [
            try checkSessions(url),
            Finding(
                name: "schema", isPassed: true,
                detail: status.isCurrent
                    ? "current (version \(status.found))"
                    : "version \(status.found) of \(status.known); run ferry migrate"
            ),
        ] + (rows ? checkRows(url, isCurrent: status.isCurrent) : [])
    } catch {
        let name = if case .database = error { "database" } else { "schema" }
        return [Finding(name: name, isPassed: false, detail: "\(error)")]
    }
}

private func checkRows(_ url: String, isCurrent: Bool) -> [Finding] {
    guard isCurrent else {
        return [Finding(name: "rows", isPassed: false, detail: "not checked: run ferry migrate")]
    }
    do throws(PostgresError) {
        let broken = try RowCheck.brokenRules(url: url)
        if broken.isEmpty { return [Finding(name: "rows", isPassed: true, detail: "consistent")] }
        return broken.map { broken in
            Finding(
                name: "rows", isPassed: false,
                detail: "\(broken.rowCount) rows break the rule: \(broken.rule) (\(broken.example))")
        }
    } catch {
        return [Finding(name: "rows", isPassed: false, detail: "not checked: \(error)")]
    }
}

/// Checks what `PostgresOwner` needs at the start, without creating or opening anything.
private func checkPrivatePostgres(_ configuration: Configuration) -> Finding {
    var cluster = PostgresCluster(parent: configuration.dataDirectory, account: .own)
    do throws(PrivatePostgresError) {
        try cluster.followLink()
        _ = try PostgresCluster.findAccount(configuration.postgresUser)
        let programs = try PostgresPrograms.find(clusterVersion: cluster.majorVersion)
        return Finding(
            name: "database", isPassed: true, detail: "private, with PostgreSQL \(programs.majorVersion)")
    } catch {
        return Finding(name: "database", isPassed: false, detail: "\(error)")
    }
}
