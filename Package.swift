// swift-tools-version: 6.2
import PackageDescription

/// Swift 6 mode with every warning an error, for all targets.
let everywhere: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

/// `make fuzz` (BEARERD_FUZZ=1, in a scratch path of its own) builds what the fuzzer drives with libFuzzer's
/// instrumentation and adds the fuzzer; an ordinary build knows neither.
let isFuzzing = Context.environment["BEARERD_FUZZ"] == "1"
let fuzzed: [SwiftSetting] = isFuzzing ? [.unsafeFlags(["-sanitize=fuzzer"])] : []

/// Below the import line every unsafe expression must also be marked `unsafe` (SE-0458). Above it the
/// code calls C on most lines, where the marker would say nothing.
let belowTheLine: [SwiftSetting] = everywhere + [.strictMemorySafety()] + fuzzed

/// The path of a request crosses several targets: without these a small call between targets costs 13
/// instructions instead of 3.5. Bounds checks stay; only the dynamic exclusivity check goes, in release.
let hot: [SwiftSetting] = [
  .unsafeFlags(
    ["-enforce-exclusivity=unchecked", "-cross-module-optimization"], .when(configuration: .release))
]

/// Fault points (`BEARERD_FAULT=…`) exist in debug builds only; the end-to-end tests kill such a build there.
let faults: [SwiftSetting] = [.define("FAULT_POINTS", .when(configuration: .debug))]

let fuzzer: [Target] =
  isFuzzing
  ? [
    .executableTarget(
      name: "Fuzzer", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/Fuzzer",
      swiftSettings: everywhere,
      linkerSettings: [.unsafeFlags(["-sanitize=fuzzer", "-use-ld=lld"])])
  ] : []

let package = Package(
  name: "bearerd",
  products: [.executable(name: "bearerd", targets: ["bearerd"])],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
    .package(url: "https://github.com/LebJe/TOMLKit", from: "0.6.0"),
  ],
  targets: [
    // MARK: the executable and its edge
    .executableTarget(
      name: "bearerd",
      dependencies: [
        "Daemon", "Admin", "Configuration", "SessionStore", "BearerPolicy", "Server", "Transport", "MockServer",
        "MockBackend", "Chronology", "CLinux",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: everywhere),
    .target(
      name: "Daemon",
      dependencies: [
        "Admin", "Server", "SessionStore", "Configuration", "Transport", "ProxyCore", "BearerPolicy", "HTTPSyntax",
        "Chronology", "CLinux", .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: everywhere),
    .target(
      name: "Admin",
      dependencies: [
        "Server", "SessionStore", "Configuration", "Transport", "ProxyCore", "BearerPolicy", "HTTPSyntax", "Chronology",
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: everywhere),
    .target(
      name: "Server",
      dependencies: [
        "SessionStore", "Configuration", "Transport", "ProxyCore", "BearerPolicy", "HTTP2Framing", "HTTPSyntax",
        "Chronology", "CLinux", .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: everywhere + hot),
    .target(
      name: "SessionStore",
      dependencies: ["BearerPolicy", "Chronology", "CLinux", "COpenSSL"],
      swiftSettings: everywhere + faults + fuzzed),
    .target(
      name: "Configuration",
      dependencies: [
        "HTTPSyntax", "BearerPolicy", "Chronology", .product(name: "TOMLKit", package: "TOMLKit"),
      ],
      swiftSettings: everywhere + fuzzed),
    .target(
      name: "Transport",
      dependencies: ["HTTPSyntax", "Chronology", "CLinux", "COpenSSL"],
      swiftSettings: everywhere + hot),
    .target(
      name: "MockServer",
      dependencies: ["MockBackend", "HTTPSyntax", "Chronology", "CLinux", "COpenSSL"],
      swiftSettings: everywhere),

    // MARK: the import line; below it no Glibc, Dispatch, Foundation, OpenSSL
    .target(name: "MockBackend", dependencies: ["Chronology"], swiftSettings: belowTheLine),
    .target(
      name: "ProxyCore", dependencies: ["BearerPolicy", "HTTPSyntax", "Chronology"],
      swiftSettings: belowTheLine + hot),
    .target(name: "BearerPolicy", dependencies: ["Chronology"], swiftSettings: belowTheLine + hot),
    .target(name: "HTTP2Framing", dependencies: ["CNghttp2"], swiftSettings: belowTheLine),
    .target(name: "HTTPSyntax", dependencies: ["Chronology"], swiftSettings: belowTheLine + hot),
    .target(name: "Chronology", swiftSettings: belowTheLine + hot),

    // MARK: C modules
    .systemLibrary(
      name: "CNghttp2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CLinux"),

    // MARK: tests
    .testTarget(name: "ChronologyTests", dependencies: ["Chronology"], swiftSettings: everywhere),
    .testTarget(name: "HTTPSyntaxTests", dependencies: ["HTTPSyntax", "Chronology"], swiftSettings: everywhere),
    .testTarget(name: "HTTP2FramingTests", dependencies: ["HTTP2Framing", "CNghttp2"], swiftSettings: everywhere),
    .testTarget(name: "BearerPolicyTests", dependencies: ["BearerPolicy", "Chronology"], swiftSettings: everywhere),
    .testTarget(
      name: "ProxyCoreTests", dependencies: ["ProxyCore", "BearerPolicy", "HTTPSyntax", "Chronology"],
      swiftSettings: everywhere),
    .testTarget(name: "MockBackendTests", dependencies: ["MockBackend", "Chronology"], swiftSettings: everywhere),
    .testTarget(
      name: "MockServerTests", dependencies: ["MockServer", "MockBackend", "HTTPSyntax", "COpenSSL"],
      swiftSettings: everywhere),
    .testTarget(
      name: "ConfigurationTests", dependencies: ["Configuration", "BearerPolicy", "Chronology"],
      swiftSettings: everywhere),
    .testTarget(name: "AdminTests", dependencies: ["Admin"], swiftSettings: everywhere),
    .testTarget(
      name: "ServerTests",
      dependencies: [
        "Server", "SessionStore", "Transport", "ProxyCore", "BearerPolicy", "Chronology",
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: everywhere),
    .testTarget(
      name: "SessionStoreTests", dependencies: ["SessionStore", "BearerPolicy", "Chronology"],
      swiftSettings: everywhere),
    .testTarget(
      name: "TransportTests", dependencies: ["Transport", "HTTPSyntax", "Chronology", "COpenSSL", "CLinux"],
      swiftSettings: everywhere),
    .testTarget(
      name: "Simulation", dependencies: ["ProxyCore", "BearerPolicy", "MockBackend", "Chronology"],
      swiftSettings: everywhere),
    .testTarget(
      name: "EndToEnd",
      dependencies: [
        "bearerd", "MockServer", "MockBackend", "BearerPolicy", "SessionStore", "Chronology",
      ],
      exclude: ["Peers"], swiftSettings: everywhere),
    .testTarget(
      name: "Chaos",
      dependencies: [
        "bearerd", "MockServer", "MockBackend", "BearerPolicy", "SessionStore", "Chronology",
      ],
      swiftSettings: everywhere),
    .testTarget(name: "Tidy", swiftSettings: everywhere),
    // What must hold for any bytes: for the fuzzer, and for the tests that play its corpus.
    .target(
      name: "FuzzTargets",
      dependencies: [
        "HTTPSyntax", "HTTP2Framing", "ProxyCore", "BearerPolicy", "Configuration", "SessionStore", "Chronology",
      ],
      path: "Tests/Fuzz/Targets", swiftSettings: everywhere + fuzzed),
    .testTarget(
      name: "FuzzTests", dependencies: ["FuzzTargets"], path: "Tests/Fuzz/Tests", swiftSettings: everywhere),
  ] + fuzzer
)
