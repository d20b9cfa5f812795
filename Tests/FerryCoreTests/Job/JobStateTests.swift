import FerryCore
import Testing

@Suite("Job states")
struct JobStateTests {
    @Test("a terminal state allows no transition", arguments: JobState.allCases.filter(\.isTerminal))
    func terminal(_ state: JobState) {
        for input in JobStateMachine.Input.allCases {
            var machine = JobStateMachine(state)
            let isLegal = machine.handle(input)
            #expect(!isLegal)
            #expect(machine.state == state)
        }
    }

    @Test("every state that is not terminal allows cancellation", arguments: JobState.allCases)
    func cancel(_ state: JobState) {
        guard !state.isTerminal else { return }
        #expect(JobStateMachine.next(state, .cancel) == .cancelled)
    }

    @Test("only a running job can succeed, wait for a retry, or be released")
    func running() {
        for state in JobState.allCases where state != .running {
            for input in [JobStateMachine.Input.succeed, .wait, .release] {
                #expect(JobStateMachine.next(state, input) == nil)
            }
        }
        #expect(JobStateMachine.next(.queued, .lease) == .running)
        #expect(JobStateMachine.next(.waiting, .lease) == nil)
        #expect(JobStateMachine.next(.waiting, .becomeDue) == .queued)
    }
}
