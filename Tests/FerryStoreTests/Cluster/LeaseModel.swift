import FerryCore

/// A model of how nodes lease jobs: the rows, what the nodes remember, and every step that changes either.
/// Rows change by the transition table of the source (`JobTransition`); times and the order of the queue are
/// left out, so that any step may come whenever it is possible.
struct LeaseModel: Sendable {
    /// Outcome of an attempt, until its node has written it.
    enum Outcome: UInt8, Sendable, CaseIterable { case succeeded, retry, returned, cancelled }

    /// Memory of a node about an attempt.
    struct Memory: Equatable, Sendable {
        enum Stage: Equatable, Sendable {
            case none, held, running
            case ended(Outcome)
        }
        var stage = Stage.none
        var attempt = 0
        /// The row does not say yet that the attempt has begun: it was held since the submission.
        var isUnrecorded = false
        /// The attempt is in the registry of leases.
        var isRegistered = false

        fileprivate func packed(attempt newest: Int) -> UInt64 {
            let stage: UInt64 =
                switch stage {
                case .none: 0
                case .held: 1
                case .running: 2
                case .ended(let outcome): 3 + UInt64(outcome.rawValue)
                }
            guard stage != 0 else { return 0 }
            return stage | (attempt < newest ? 8 : 0) | (isUnrecorded ? 16 : 0) | (isRegistered ? 32 : 0)
        }
    }

    struct Job: Equatable, Sendable {
        /// `nil`: not submitted.
        var state: JobState?
        var node: Int?
        var attempt = 0
        var cancels = false
        var suspends = false
        /// Events about the end of the job.
        var endCount = 0
        /// The attempt of the lease was held since its submission and has not begun. What happens does not
        /// depend on it: only the rules do.
        var isOnlyHeld = false
        var memories = (Memory(), Memory())

        static func == (a: Job, b: Job) -> Bool {
            a.state == b.state && a.node == b.node && a.attempt == b.attempt && a.cancels == b.cancels
                && a.suspends == b.suspends && a.endCount == b.endCount && a.isOnlyHeld == b.isOnlyHeld
                && a.memories == b.memories
        }

        subscript(node: Int) -> Memory {
            get { node == 0 ? memories.0 : memories.1 }
            set { if node == 0 { memories.0 = newValue } else { memories.1 = newValue } }
        }

        /// Whether the row has this lease.
        func confirms(_ node: Int) -> Bool { self.node == node && attempt == self[node].attempt }

        /// `first`: the node that comes first.
        fileprivate func packed(first: Int) -> UInt64 {
            // How a job has ended makes no difference.
            let states: [JobState?] = [nil, .waiting, .queued, .running, .suspended]
            var bits = UInt64(states.firstIndex(of: state) ?? states.count)
            bits |= (node.map { $0 == first ? 1 : 2 } ?? 0) << 3
            bits |= (cancels ? 1 : 0) << 5 | (suspends ? 1 : 0) << 6 | (isOnlyHeld ? 1 : 0) << 7
            bits |= UInt64(min(endCount, 3)) << 8
            bits |= self[first].packed(attempt: attempt) << 10
            return bits | self[1 - first].packed(attempt: attempt) << 16
        }
    }

    /// State of a node's lease, for the node and for the others.
    enum NodeState: UInt64, Sendable {
        case valid
        /// The node has sent no heartbeat for so long that it trusts its lease no more. From now on others
        /// may take its jobs.
        case lapsed
        /// A heartbeat is written: the others take nothing more. The node does not trust its leases yet.
        case beaten
        case down
    }

    enum Fault: CaseIterable, Sendable {
        /// A process ends at once.
        case crash
        /// A node sends no heartbeat for the time of its lease.
        case lapse
        /// A commit succeeds, and its node does not learn of it.
        case lostAnswer
    }

    /// Change of the model that breaks an invariant; the search must find the violation.
    enum Mutation: CaseIterable, Sendable {
        /// The result of any attempt is accepted.
        case withoutFencing
        /// The jobs of a node are taken while it trusts its lease.
        case withoutMargin
        /// After a lapse a node trusts all leases that it remembers.
        case withoutForgetting
        /// A claim leases jobs that a node holds.
        case claimsHeld
        /// The loss of a held job counts as the loss of its attempt.
        case losesHeld
        /// Leases that a node does not remember stay.
        case withoutReconciling
    }

    enum Step: Hashable, Sendable {
        case submit(Int)
        case submitLeased(Int, node: Int, isKnown: Bool)
        case submitHeld(Int, node: Int, isKnown: Bool)
        case claim(Int, node: Int, isKnown: Bool)
        case begin(Int, node: Int)
        case recordBegin(Int, node: Int)
        case end(Int, node: Int, Outcome)
        case commit(Int, node: Int, isKnown: Bool)
        case reconcile(Int, node: Int)
        case reclaim(Int, by: Int)
        case becomeDue(Int)
        case cancel(Int)
        case suspend(Int)
        case resume(Int)
        case lapse(node: Int)
        case beat(node: Int)
        case trust(node: Int)
        case crash(node: Int)
        case restart(node: Int)
    }

    /// A state of all jobs and nodes, whatever their numbers.
    struct Key: Hashable, Sendable { let (low, high): (UInt64, UInt64) }

    private(set) var jobs: [Job]
    private(set) var nodes = (NodeState.valid, NodeState.valid)
    /// Faults that may still come.
    private(set) var faultCount: Int
    /// Requests of clients that may still come.
    private(set) var requestCount: Int
    private let faults: Set<Fault>
    private let mutation: Mutation?

    init(
        jobCount: Int, _ faults: Set<Fault> = Set(Fault.allCases), faultCount: Int, requestCount: Int,
        mutation: Mutation? = nil
    ) {
        jobs = Array(repeating: Job(), count: jobCount)
        (self.faults, self.mutation) = (faults, mutation)
        (self.faultCount, self.requestCount) = (faultCount, requestCount)
    }

    private func mayCome(_ fault: Fault) -> Bool { faultCount > 0 && faults.contains(fault) }

    func node(_ node: Int) -> NodeState { node == 0 ? nodes.0 : nodes.1 }

    private mutating func set(_ node: Int, _ state: NodeState) {
        if node == 0 { nodes.0 = state } else { nodes.1 = state }
    }

    var key: Key {
        let (a, b) = (key(first: 0), key(first: 1))
        return (a.low, a.high) < (b.low, b.high) ? a : b
    }

    private func key(first: Int) -> Key {
        var packed = jobs.map { $0.packed(first: first) }
        packed.sort()
        var low = node(first).rawValue | node(1 - first).rawValue << 2
        low |= UInt64(faultCount) << 4 | UInt64(requestCount) << 8 | packed[0] << 16
        var high: UInt64 = 0
        for one in packed.dropFirst() { high = high << 24 | one }
        return Key(low: low, high: high)
    }

    /// All jobs have ended, the nodes remember nothing and are well.
    var isDone: Bool {
        nodes == (.valid, .valid)
            && jobs.allSatisfy {
                ($0.state?.isTerminal ?? false) && $0[0].stage == .none && $0[1].stage == .none
            }
    }

    // MARK: Rules

    /// The rule that the state breaks, or `nil`.
    var brokenRule: String? {
        for job in jobs {
            let isUnfinished = job.state.map { !$0.isTerminal } ?? false
            if job.state == .running, job.node == nil { return "a running job has a node" }
            if job.node != nil, job.state != .running, job.state != .queued {
                return "only a running or held job has a node"
            }
            if job.suspends, job.node == nil { return "only a job of a node has a requested suspension" }
            if job.endCount != (job.state == nil || isUnfinished ? 0 : 1) {
                return "a job has one event about its end"
            }
            for node in 0...1 {
                let memory = job[node]
                if memory.attempt > job.attempt { return "attempts come from rows" }
                guard self.node(node) == .valid, memory.isRegistered else { continue }
                if memory.stage == .held || memory.stage == .running, !job.confirms(node) {
                    return "a node with a valid lease holds and runs only what its rows say"
                }
            }
        }
        return nil
    }

    // MARK: Steps

    /// All steps that are possible.
    var steps: [Step] {
        var steps: [Step] = []
        let submitted = jobs.firstIndex { $0.state == nil }
        for (number, job) in jobs.enumerated() {
            // Jobs that are not submitted are all alike.
            if job.state == nil, number != submitted { continue }
            addSteps(of: number, job, &steps)
        }
        for node in 0...1 {
            switch self.node(node) {
            case .valid: if mayCome(.lapse) { steps.append(.lapse(node: node)) }
            case .lapsed: steps.append(.beat(node: node))
            case .beaten: steps.append(.trust(node: node))
            case .down: steps.append(.restart(node: node))
            }
            if mayCome(.crash), self.node(node) != .down { steps.append(.crash(node: node)) }
        }
        return steps
    }

    private func addSteps(of number: Int, _ job: Job, _ steps: inout [Step]) {
        let answers = mayCome(.lostAnswer) ? [true, false] : [true]
        switch job.state {
        case nil: steps.append(.submit(number))
        case .waiting: steps.append(.becomeDue(number))
        case .suspended: steps.append(.resume(number))
        default: break
        }
        for node in 0...1 {
            let state = self.node(node)
            guard state != .down else { continue }
            if state == .valid {
                let isFree = job.node == nil || mutation == .claimsHeld
                for isKnown in answers {
                    if job.state == nil {
                        if hasSlot(node) {
                            steps.append(.submitLeased(number, node: node, isKnown: isKnown))
                        }
                        steps.append(.submitHeld(number, node: node, isKnown: isKnown))
                    } else if job.state == .queued, isFree, job[node].stage == .none {
                        steps.append(.claim(number, node: node, isKnown: isKnown))
                    }
                }
                if let owner = job.node, owner != node {
                    let isDead = self.node(owner) == .lapsed || self.node(owner) == .down
                    if isDead || mutation == .withoutMargin { steps.append(.reclaim(number, by: node)) }
                }
                let isUnknown = job.node == node && job[node].stage == .none
                if isUnknown, mutation != .withoutReconciling {
                    steps.append(.reconcile(number, node: node))
                }
            }
            addSteps(of: number, job, node, state, &steps)
        }
        guard requestCount > 0, let state = job.state, !state.isTerminal else { return }
        if !job.cancels { steps.append(.cancel(number)) }
        if !job.cancels, !job.suspends, state != .suspended { steps.append(.suspend(number)) }
    }

    /// Each node has one slot.
    private func hasSlot(_ node: Int) -> Bool { jobs.allSatisfy { $0[node].stage != .running } }

    /// Steps of an attempt that a node remembers.
    private func addSteps(
        of number: Int, _ job: Job, _ node: Int, _ state: NodeState, _ steps: inout [Step]
    ) {
        let memory = job[node]
        let isStopped = job.confirms(node) && (job.cancels || job.suspends)
        switch memory.stage {
        case .none: break
        case .held, .running:
            let isHeld = memory.stage == .held
            if isHeld, state == .valid, memory.isRegistered, hasSlot(node) {
                steps.append(.begin(number, node: node))
            }
            if isHeld || isStopped { steps.append(.end(number, node: node, .returned)) }
            if job.confirms(node), job.cancels { steps.append(.end(number, node: node, .cancelled)) }
            guard !isHeld else { return }
            if memory.isUnrecorded { steps.append(.recordBegin(number, node: node)) }
            steps.append(.end(number, node: node, .retry))
            // Asked before the file gets its name.
            if state == .valid, memory.isRegistered { steps.append(.end(number, node: node, .succeeded)) }
        case .ended:
            for isKnown in mayCome(.lostAnswer) ? [true, false] : [true] {
                steps.append(.commit(number, node: node, isKnown: isKnown))
            }
        }
    }

    /// Takes a possible step. Returns the rule that it breaks, or `nil`.
    mutating func take(_ step: Step) -> String? {
        switch step {
        case .submit(let job): change(job, .submit)
        case .submitLeased(let job, let node, let isKnown):
            lease(job, .submitLeased, node, isKnown, Memory(stage: .running, isRegistered: true))
        case .submitHeld(let job, let node, let isKnown):
            lease(
                job, .submitHeld, node, isKnown,
                Memory(stage: .held, isUnrecorded: true, isRegistered: true))
            jobs[job].isOnlyHeld = true
        case .claim(let job, let node, let isKnown):
            lease(job, .claim, node, isKnown, Memory(stage: .held, isRegistered: true))
        case .begin(let job, let node):
            jobs[job][node].stage = .running
            if jobs[job].confirms(node) { jobs[job].isOnlyHeld = false }
        case .recordBegin(let job, let node):
            if accepts(job, node) { change(job, .begin) }
            jobs[job][node].isUnrecorded = false
        case .end(let job, let node, let outcome): return end(job, node, outcome)
        case .commit(let job, let node, let isKnown): return commit(job, node, isKnown)
        case .reconcile(let job, _): change(job, .giveBack)
        case .reclaim(let job, _): return lose(job)
        case .becomeDue(let job): change(job, .becomeDue)
        case .resume(let job): change(job, .resume)
        case .cancel(let job):
            requestCount -= 1
            change(job, jobs[job].node == nil ? .cancel : .requestCancellation)
        case .suspend(let job):
            requestCount -= 1
            change(job, jobs[job].node == nil ? .suspend : .requestSuspension)
        default: return take(ofNode: step)
        }
        return nil
    }

    private mutating func take(ofNode step: Step) -> String? {
        switch step {
        case .lapse(let node):
            faultCount -= 1
            set(node, .lapsed)
        case .beat(let node): set(node, mutation == .withoutForgetting ? .valid : .beaten)
        case .trust(let node):
            set(node, .valid)
            for job in jobs.indices where !jobs[job].confirms(node) { jobs[job][node].isRegistered = false }
        case .crash(let node):
            faultCount -= 1
            set(node, .down)
            for job in jobs.indices { jobs[job][node] = Memory() }
        case .restart(let node):
            set(node, .valid)
            for job in jobs.indices where jobs[job].node == node {
                if let rule = lose(job) { return rule }
            }
        default: preconditionFailure("\(step) is a step of a job")
        }
        return nil
    }

    /// Leases a job; `isKnown`: the node learns of the commit.
    private mutating func lease(
        _ job: Int, _ input: JobInput, _ node: Int, _ isKnown: Bool, _ memory: Memory
    ) {
        change(job, input, node)
        guard isKnown else { return faultCount -= 1 }
        jobs[job][node] = memory
        jobs[job][node].attempt = jobs[job].attempt
    }

    private mutating func end(_ job: Int, _ node: Int, _ outcome: Outcome) -> String? {
        let memory = jobs[job][node]
        // What has not begun stays unrecorded for good.
        if memory.stage == .held { jobs[job][node].isUnrecorded = false }
        jobs[job][node].stage = .ended(outcome)
        guard outcome == .succeeded, !jobs[job].confirms(node) else { return nil }
        return "only the newest attempt publishes its file"
    }

    private mutating func commit(_ job: Int, _ node: Int, _ isKnown: Bool) -> String? {
        let memory = jobs[job][node]
        guard case .ended(let outcome) = memory.stage else {
            preconditionFailure("the attempt has not ended")
        }
        var rule: String?
        if accepts(job, node) {
            if !jobs[job].confirms(node) { rule = "a result is accepted from the newest attempt only" }
            if memory.isUnrecorded { change(job, .begin) }
            let inputs: [Outcome: JobInput] = [
                .succeeded: .succeed, .retry: .retry, .returned: .giveBack, .cancelled: .cancel,
            ]
            inputs[outcome].map { change(job, $0) }
        }
        if isKnown { jobs[job][node] = Memory() } else { faultCount -= 1 }
        return rule
    }

    /// Whether a statement changes the job for the attempt that the node remembers.
    private func accepts(_ job: Int, _ node: Int) -> Bool {
        let job = jobs[job]
        if mutation == .withoutFencing { return job.state.map { !$0.isTerminal } ?? false }
        return job.node != nil && job.attempt == job[node].attempt
    }

    /// The node that has the lease is dead or has been restarted.
    private mutating func lose(_ job: Int) -> String? {
        let isHeld = jobs[job].state == .queued && mutation != .losesHeld
        let wasOnlyHeld = jobs[job].isOnlyHeld
        change(job, isHeld ? .giveBack : .loseNode)
        return wasOnlyHeld && !isHeld ? "a held job that is lost uses no attempt" : nil
    }

    /// Does what the transition table says, as the statements do.
    private mutating func change(_ number: Int, _ input: JobInput, _ node: Int? = nil) {
        var job = jobs[number]
        let before = job.node == nil ? job.state : .running
        guard
            let transition = JobTransition(input, from: before)?
                .after(cancellationRequested: job.cancels, suspensionRequested: job.suspends)
        else { return }
        let effects = transition.effects
        if let node { job.node = node }
        if !effects.contains(.keepsState) { job.state = transition.state }
        if effects.contains(.beginsAttempt) { job.attempt += 1 }
        if effects.contains(.endsAttempt) || job.state?.isTerminal ?? false {
            (job.node, job.suspends, job.isOnlyHeld) = (nil, false, false)
        }
        if effects.contains(.requestsSuspension) { job.suspends = true }
        if effects.contains(.requestsCancellation) { job.cancels = true }
        if let event = transition.event, [.jobSucceeded, .jobFailed, .jobCancelled].contains(event) {
            job.endCount += 1
        }
        jobs[number] = job
    }
}

/// All states that a model can reach, breadth-first.
struct LeaseSearch {
    struct Failure: CustomStringConvertible {
        let rule: String
        let steps: [LeaseModel.Step]

        var description: String {
            steps.enumerated().map { "\($0 + 1). \($1)" }.joined(separator: "\n") + "\n\(rule)"
        }
    }

    /// The states, each as it was found first.
    private(set) var states: [LeaseModel] = []
    private(set) var edgeCount = 0
    /// The shortest way to a broken rule or a dead end.
    private(set) var failure: Failure?
    private var origins: [(state: Int, step: LeaseModel.Step)?] = []
    private var indices: [LeaseModel.Key: Int] = [:]
    /// For each state, those from which a step leads to it.
    private var before: [[Int32]] = []

    init(_ model: LeaseModel) {
        _ = add(model, nil)
        var next = 0
        while next < states.count, failure == nil {
            let state = states[next]
            for step in state.steps {
                edgeCount += 1
                var after = state
                let broken = after.take(step)
                let (index, isNew) = add(after, (next, step))
                before[index].append(Int32(next))
                if let rule = broken ?? (isNew ? after.brokenRule : nil) {
                    failure = Failure(rule: rule, steps: steps(to: next) + [step])
                    return
                }
            }
            next += 1
        }
        findDeadEnd()
    }

    private mutating func add(
        _ model: LeaseModel, _ origin: (Int, LeaseModel.Step)?
    ) -> (index: Int, isNew: Bool) {
        let key = model.key
        if let index = indices[key] { return (index, false) }
        indices[key] = states.count
        states.append(model)
        origins.append(origin)
        before.append([])
        return (states.count - 1, true)
    }

    private mutating func findDeadEnd() {
        var canEnd = states.map(\.isDone)
        var open = canEnd.indices.filter { canEnd[$0] }
        while let state = open.popLast() {
            for index in before[state] where !canEnd[Int(index)] {
                canEnd[Int(index)] = true
                open.append(Int(index))
            }
        }
        guard let dead = canEnd.firstIndex(of: false) else { return }
        failure = Failure(rule: "every job can still end", steps: steps(to: dead))
    }

    /// The first way to a state that was found.
    func steps(to state: Int) -> [LeaseModel.Step] {
        var steps: [LeaseModel.Step] = []
        var state = state
        while let origin = origins[state] {
            steps.append(origin.step)
            state = origin.state
        }
        return steps.reversed()
    }

    /// The states that were found from each one, with the steps to them.
    var tree: [[(step: LeaseModel.Step, state: Int)]] {
        var tree: [[(step: LeaseModel.Step, state: Int)]] = Array(repeating: [], count: states.count)
        for (state, origin) in origins.enumerated() {
            if let origin { tree[origin.state].append((origin.step, state)) }
        }
        return tree
    }
}
