// swift-tools-version: 6.2
import PackageDescription

/// What every target is built with: Swift 6 mode, no warnings. In release builds, generic functions of other
/// modules are specialized, and small ones inlined, if they are `public`, and exclusive access is not checked
/// (docs/decisions, 52 and 61).
let strict: [SwiftSetting] = [
    .unsafeFlags(
        ["-cross-module-optimization", "-enforce-exclusivity=unchecked"], .when(configuration: .release)),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]
/// Targets that hold no C handle are checked for memory safety as well: `unsafe` lives in the wrappers, and in
/// JSONWriter, which copies texts into its buffer.
let safe: [SwiftSetting] = strict + [.strictMemorySafety()]

/// The store's SQL, in the folders of the Swift files that use it, and the migrations.
let storeSQL: [Resource] =
    [
        "Admin", "BulkOperations", "Claim", "Cluster", "Connection", "ContentStore", "Cookies", "Deliveries",
        "Dispatch",
        "Events", "Finish", "Groups", "Hosts",
        "JobRows", "Jobs", "Leases", "Quotas", "Retention", "Schedules", "Schema", "Sessions",
        "Sessions/Credentials", "Settings", "Submit", "Uploads", "Waiting",
    ].map { .embedInCode("\($0)/SQL") } + [.embedInCode("Schema/Migrations")]

/// In the order in which a job flows through them; each stage imports `FerryCore` and at most one wrapper.
let package = Package(
    name: "ferry",
    products: [.executable(name: "ferry", targets: ["ferry"])],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    ],
    targets: [
        // The C libraries, and the kernel calls that Glibc's module leaves out.
        .systemLibrary(
            name: "CMicrohttpd", pkgConfig: "libmicrohttpd", providers: [.apt(["libmicrohttpd-dev"])]),
        .systemLibrary(
            name: "CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(
            name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(
            name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CBrotli", pkgConfig: "libbrotlidec", providers: [.apt(["libbrotli-dev"])]),
        .systemLibrary(name: "CIdn2", pkgConfig: "libidn2", providers: [.apt(["libidn2-dev"])]),
        .systemLibrary(name: "CPsl", pkgConfig: "libpsl", providers: [.apt(["libpsl-dev"])]),
        .target(name: "CSys"),

        // Safe wrappers, without a word of Ferry in them.
        .target(name: "Sys", dependencies: ["CSys"], swiftSettings: strict),
        .target(name: "OpenSSL", dependencies: ["COpenSSL"], swiftSettings: strict),
        .target(name: "Codings", dependencies: ["CBrotli", "CZlib"], swiftSettings: strict),
        .target(name: "IDNA", dependencies: ["CIdn2"], swiftSettings: strict),
        .target(name: "PublicSuffixList", dependencies: ["CPsl"], swiftSettings: strict),
        .target(name: "HTTPServer", dependencies: ["CMicrohttpd", "Sys"], swiftSettings: strict),
        .target(name: "Postgres", dependencies: ["CPostgres", "Sys"], swiftSettings: strict),
        .target(name: "Curl", dependencies: ["CCurl", "Sys"], swiftSettings: strict),

        // The stages.
        .target(name: "FerryCore", dependencies: ["IDNA", "PublicSuffixList"], swiftSettings: safe),
        .target(
            name: "FerryAPI",
            dependencies: [
                "FerryCore", "HTTPServer", "OpenSSL", "Sys", .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: safe),
        .target(name: "FerryScheduler", dependencies: ["FerryCore"], swiftSettings: safe),
        .target(
            name: "FerryStore",
            dependencies: [
                "FerryCore", "FerryScheduler", "Postgres", "Sys",
                .product(name: "Logging", package: "swift-log"),
            ],
            resources: storeSQL,
            swiftSettings: strict),
        .target(
            name: "FerryEngine",
            dependencies: [
                "FerryCore", "Codings", "Curl", "OpenSSL", "Sys",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .target(
            name: "FerryWebhooks",
            dependencies: [
                "FerryCore", "Curl", "OpenSSL", "Sys", .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: safe),

        // What builds and runs them, and the client.
        .target(
            name: "FerryServer",
            dependencies: [
                "FerryCore", "FerryAPI", "FerryScheduler", "FerryStore", "FerryEngine", "FerryWebhooks",
                "HTTPServer",
                "Postgres",
                "Curl", "OpenSSL", "Sys", "CSys", .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .target(
            name: "FerryCLI",
            dependencies: [
                "FerryCore", "Curl", "OpenSSL", "Sys",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "ferry",
            dependencies: [
                "FerryServer", "FerryCLI", "Sys",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict),

        // Tests: one target a source target, and the built binary from outside.
        .target(
            name: "TestSupport", dependencies: ["COpenSSL", "CSys", "Postgres", "Sys"],
            path: "Tests/TestSupport",
            swiftSettings: strict),
        .target(
            name: "TestThreads", dependencies: ["Sys"], path: "Tests/TestThreads", swiftSettings: strict),
        .target(
            name: "TestGolden", dependencies: ["FerryCore"], path: "Tests/TestGolden", swiftSettings: strict),
        .testTarget(name: "TidyTests", swiftSettings: strict),
        .testTarget(name: "SysTests", dependencies: ["Sys"], swiftSettings: strict),
        .testTarget(
            name: "HTTPServerTests", dependencies: ["HTTPServer", "Sys", "TestSupport", "TestThreads"],
            swiftSettings: strict),
        .testTarget(
            name: "PostgresTests", dependencies: ["Postgres", "Sys", "TestSupport"], swiftSettings: strict),
        .testTarget(
            name: "CurlTests", dependencies: ["Curl", "Sys", "TestSupport", "TestThreads"],
            swiftSettings: strict),
        .testTarget(
            name: "PublicSuffixListTests", dependencies: ["PublicSuffixList"], swiftSettings: strict),
        .testTarget(
            name: "FerryCoreTests", dependencies: ["FerryCore", "TestGolden"], swiftSettings: strict),
        .testTarget(
            name: "FerryAPITests",
            dependencies: [
                "FerryAPI", "FerryCore", "HTTPServer", "OpenSSL", "Sys", "TestGolden", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: strict),
        .testTarget(
            name: "FerrySchedulerTests", dependencies: ["FerryCore", "FerryScheduler"], swiftSettings: strict),
        .testTarget(
            name: "FerryStoreTests",
            dependencies: [
                "FerryCore", "FerryScheduler", "FerryStore", "Postgres", "Sys", "TestSupport", "TestThreads",
                .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: strict),
        .testTarget(
            name: "FerryEngineTests",
            dependencies: [
                "Curl", "FerryCore", "FerryEngine", "OpenSSL", "Sys", "TestSupport", "TestThreads",
                .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: strict),
        .testTarget(
            name: "FerryWebhooksTests",
            dependencies: [
                "Curl", "FerryCore", "FerryWebhooks", "OpenSSL", "Sys", "TestGolden", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ], swiftSettings: strict),
        .testTarget(
            name: "FerryServerTests",
            dependencies: [
                "FerryAPI", "FerryCore", "FerryEngine", "FerryServer", "OpenSSL", "Postgres", "Sys",
                "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "FerryCLITests",
            dependencies: [
                "FerryCLI", "FerryCore", "Sys",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ], swiftSettings: strict),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "CSys", "Curl", "FerryCore", "OpenSSL", "Postgres", "Sys", "TestSupport", "TestThreads",
                "ferry",
            ],
            swiftSettings: strict),

        // Figures of the hot pieces: swift run -c release microbench.
        .executableTarget(
            name: "microbench",
            dependencies: [
                "Curl", "FerryCore", "FerryStore", "OpenSSL", "Postgres", "Sys", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ], path: "Benchmarks/Micro",
            swiftSettings: strict),
    ]
)

// `FERRY_TEST_TARGETS=CurlTests,SysTests`: only these test targets and what they need. A build with a
// sanitizer
// compiles what its tests run, and nothing else.
if let names = Context.environment["FERRY_TEST_TARGETS"] {
    var needed: Set<String> = []
    var open = names.split(separator: ",").map(String.init)
    while let name = open.popLast() {
        guard let target = package.targets.first(where: { $0.name == name }), needed.insert(name).inserted
        else { continue }
        for case .byNameItem(let dependency, _) in target.dependencies { open.append(dependency) }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products = []
}
