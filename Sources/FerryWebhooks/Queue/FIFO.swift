/// A first-in, first-out queue. All operations take constant time on average.
struct FIFO<Element> {
    private var elements: [Element] = []
    private var head = 0

    var count: Int { elements.count - head }
    var first: Element? { head < elements.count ? elements[head] : nil }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        defer {
            head += 1
            if head * 2 >= elements.count {
                elements.removeFirst(head)
                head = 0
            }
        }
        return elements[head]
    }

    mutating func removeAll() -> [Element] {
        defer {
            elements = []
            head = 0
        }
        return Array(elements[head...])
    }
}
