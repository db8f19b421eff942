internal import Chronology

/// Amounts with their units, as the configuration writes them: one whole number and one unit, nothing between.
enum Quantity {
  private static let durations: [(unit: String, factor: Int64)] = [
    ("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000),
    ("ms", 1_000_000),
  ]
  private static let sizes: [(unit: String, factor: Int64)] = [
    ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
  ]

  /// nil for another spelling, or a length past what an `Interval` holds.
  static func interval(_ text: String) -> Interval? {
    scaled(text, durations).map { Interval(nanoseconds: $0) }
  }

  static func bytes(_ text: String) -> Int? { scaled(text, sizes).flatMap { Int(exactly: $0) } }

  /// In the largest unit that divides it; reads back as the same length, from a millisecond up.
  static func duration(_ interval: Interval) -> String { spelled(interval.nanoseconds, durations) ?? "0s" }

  static func size(bytes: Int) -> String { spelled(Int64(bytes), sizes) ?? "0B" }

  private static func scaled(_ text: String, _ units: [(unit: String, factor: Int64)]) -> Int64? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let unit = text[digits.endIndex...]
    guard let count = Int64(digits), let factor = units.first(where: { $0.unit == unit })?.factor else {
      return nil
    }
    let (product, overflow) = count.multipliedReportingOverflow(by: factor)
    return overflow ? nil : product
  }

  /// nil for zero.
  private static func spelled(_ amount: Int64, _ units: [(unit: String, factor: Int64)]) -> String? {
    guard amount != 0 else { return nil }
    return units.first { amount % $0.factor == 0 }.map { "\(amount / $0.factor)\($0.unit)" }
  }
}
