import FerryCore
import Testing

/// Enumerates the transition table: every input from every state.
@Suite("Transition table of jobs")
struct JobTransitionTests {
    private struct Row {
        let before: JobState?
        let input: JobInput
        let transition: JobTransition
    }

    private static let states: [JobState?] = [nil] + JobState.allCases

    private static let rows: [Row] = states.flatMap { before in
        JobInput.allCases.compactMap { input in
            JobTransition(input, from: before).map { Row(before: before, input: input, transition: $0) }
        }
    }

    private static let afterTheEnd: Set<JobInput> = [.acknowledge, .remind, .giveUpAcknowledgement, .delete]
    private static let submissions: Set<JobInput> = [
        .submit, .submitLater, .submitDiscretionary, .submitDependent, .submitSuspended, .submitLeased,
        .submitHeld,
    ]

    @Test("each input is allowed exactly in the states that are named as its origins")
    func origins() {
        for input in JobInput.allCases {
            let origins = JobTransition.origins(of: input)
            #expect(!origins.isEmpty)
            for state in Self.states {
                #expect((JobTransition(input, from: state) != nil) == origins.contains(state), "\(input)")
            }
        }
    }

    @Test("only a submission creates a job, and a terminal state never changes until the job is deleted")
    func ends() {
        for row in Self.rows {
            switch row.before {
            case nil: #expect(Self.submissions.contains(row.input))
            case let state? where state.isTerminal:
                #expect(Self.afterTheEnd.contains(row.input))
                #expect(row.transition.state == (row.input == .delete ? nil : state))
            case _?: #expect(!Self.submissions.contains(row.input) && !Self.afterTheEnd.contains(row.input))
            }
        }
    }

    @Test("every unfinished job can fail and be cancelled; only a running one succeeds")
    func results() {
        for state in JobState.allCases where !state.isTerminal {
            #expect(JobTransition(.fail, from: state)?.state == .failed)
            #expect(JobTransition(.cancel, from: state)?.state == .cancelled)
            #expect((JobTransition(.succeed, from: state) != nil) == (state == .running))
        }
    }

    @Test("a job runs only with a new attempt, and an attempt ends when the job no longer runs")
    func attempts() {
        let kept: JobEffects = [.keepsState, .recordsBegin]
        for row in Self.rows where row.input != .submitHeld && row.transition.effects.isDisjoint(with: kept) {
            let runs = row.transition.state == .running
            #expect(row.transition.effects.contains(.beginsAttempt) == runs, "\(row.input)")
            let ends = row.before == .running && !runs
            #expect(row.transition.effects.contains(.endsAttempt) == ends, "\(row.input)")
        }
    }

    @Test("a waiting job, and no other, waits for something")
    func reasons() {
        for row in Self.rows where !row.transition.effects.contains(.keepsState) {
            #expect((row.transition.state == .waiting) == (row.transition.waitingFor != nil), "\(row.input)")
        }
        #expect(Set(Self.rows.compactMap(\.transition.waitingFor)) == Set(WaitingFor.allCases))
    }

    @Test("the revision grows whenever the state changes, except at submission")
    func revisions() {
        for row in Self.rows where row.before != nil && row.transition.state != row.before {
            guard row.transition.state != nil else { continue }
            #expect(row.transition.effects.contains(.revises), "\(row.input)")
        }
    }

    @Test("each event of a job has an input, except the offset of a resumed attempt")
    func events() {
        let told = Set(Self.rows.compactMap(\.transition.event))
        let ofJobs = Set(EventType.ofJobs.filter { !$0.isOfSession })
        #expect(told == ofJobs.subtracting([.jobResumedAtOffset]))
    }

    @Test("every state can be reached, and from each the job can end and be deleted")
    func reachability() {
        var reached: Set<JobState?> = [nil]
        while true {
            let next = reached.union(Self.rows.filter { reached.contains($0.before) }.map(\.transition.state))
            if next == reached { break }
            reached = next
        }
        #expect(reached == Set(Self.states))
        for state in JobState.allCases {
            let ended = state.isTerminal ? state : JobTransition(.fail, from: state)?.state
            #expect(JobTransition(.delete, from: ended) != nil)
        }
    }

    @Test("a request during an attempt comes before what the attempt leads to")
    func requests() {
        for row in Self.rows where row.before == .running {
            let plain = row.transition
            let cancelled = plain.after(cancellationRequested: true, suspensionRequested: false)
            let suspended = plain.after(cancellationRequested: false, suspensionRequested: true)
            let both = plain.after(cancellationRequested: true, suspensionRequested: true)
            #expect(plain.after(cancellationRequested: false, suspensionRequested: false) == plain)
            #expect(both == cancelled)
            if !plain.effects.isDisjoint(with: [.keepsState, .endsJob, .recordsBegin]) {
                #expect(cancelled == plain && suspended == plain, "\(row.input)")
            } else {
                #expect(cancelled.state == .queued && suspended.state == .suspended, "\(row.input)")
                #expect(cancelled.waitingFor == nil && suspended.waitingFor == nil)
                #expect(cancelled.event == (plain.event == .jobAttemptFailed ? plain.event : nil))
            }
        }
    }
}
