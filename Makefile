# make run        install what is missing, build, start Ferry on a private PostgreSQL
# make test       install what tests need, build, run all of them
.DEFAULT_GOAL := build
.PHONY: run build release test smoke test-long build-tests test-swift smoke-swift build-memory test-memory \
        test-races prepare-outside test-outside test-outside-waiting test-outside-others smoke-outside test-ledger \
        record-budget install-deps install-test-deps format lint lint-format check-compose secrets bench-peers \
        bench-micro bench-memory bench-webhooks bench-queue bench-submit bench-lists bench-places bench-ledger \
        bench-report soak clean

SWIFT ?= swift
FERRY ?= .build/release/ferry
# `--ignore-lock` if a build and tests of another build run side by side (scripts/run-stages): SwiftPM locks .build
# while tests run, too, although `--skip-build` builds nothing.
LOCK_FLAGS ?=
# Of every build that is no release: builds with other flags would compile everything again.
BUILD_FLAGS = --explicit-target-dependency-import-check error
MEMORY_TARGETS = HTTPServerTests,PostgresTests,CurlTests,FerryEngineTests
MEMORY_FLAGS = --sanitize=address --scratch-path .build-memory
RACES_TARGETS = SysTests,HTTPServerTests,PostgresTests,CurlTests
SMOKE_SWIFT = '^(TidyTests|SysTests|PostgresTests|CurlTests|HTTPServerTests|FerryCoreTests|FerryAPITests)\.|$\
    ^FerryCLITests\.|$\
    ^FerryStoreTests\.(SubmissionTests|QueueTests|JobTransitionTests|StatementTests|WebhookStoreTests)/|$\
    ^FerryEngineTests\.(DownloadTests|UploadTests|SegmentTests|RedirectTests)/|$\
    ^EndToEndTests\.(AcceptanceTests|JobTests|CrashTests|WebhookTests)/'
# About half of the time of all outside checks.
WAITING_OUTSIDE = test_odd_disks.py test_flaky_hosts.py test_backup.py
SMOKE_OUTSIDE = test_docs.py test_totals.py test_first_job.py test_webhooks.py test_servers.py

run: install-deps release
	@exec $(FERRY) serve $(ARGS)

build:
	$(SWIFT) build $(BUILD_FLAGS)

# What users run, and what everything outside `swift test` starts.
release:
	$(SWIFT) build -c release --product ferry --static-swift-stdlib $(LOCK_FLAGS)

# The stages run beside each other where they leave a processor idle: scripts/run-stages.
test: install-test-deps
	scripts/run-stages test

# A part of each kind of test, in about three minutes when everything is built.
smoke: install-test-deps
	scripts/run-stages smoke

# All tests in their long forms, ThreadSanitizer, four soaks of ten minutes, and the ledger: some hours.
test-long: install-test-deps
	scripts/run-stages long

# The one build of all tests, which checks the imports of every target as well.
build-tests:
	$(SWIFT) build --build-tests $(BUILD_FLAGS)

test-swift:
	scripts/swift-tests --skip-build $(LOCK_FLAGS)

smoke-swift:
	scripts/swift-tests --skip-build $(LOCK_FLAGS) --filter $(SMOKE_SWIFT)

# The wrappers and the engine under AddressSanitizer. Leaks are not asked for: the Swift runtime and libcurl keep
# some memory for the life of the process.
build-memory:
	FERRY_TEST_TARGETS=$(MEMORY_TARGETS) $(SWIFT) build --build-tests $(MEMORY_FLAGS)

test-memory: build-memory
	FERRY_TEST_TARGETS=$(MEMORY_TARGETS) ASAN_OPTIONS=detect_leaks=0 \
	    scripts/swift-tests --skip-build $(MEMORY_FLAGS)

# The wrappers under ThreadSanitizer: in `test-long`, since it is a third build.
test-races: install-test-deps
	rm -f .build-races/report.*
	FERRY_TEST_TARGETS=$(RACES_TARGETS) \
	    TSAN_OPTIONS="exitcode=0 log_path=$(CURDIR)/.build-races/report" scripts/swift-tests --sanitize=thread \
	    --scratch-path .build-races
	scripts/race-report .build-races/report

# What the outside checks need besides the release build.
prepare-outside:
	scripts/outside-checks --prepare

test-outside:
	scripts/outside-checks

# The same in two halves, which run side by side since most of their time is waiting.
test-outside-waiting:
	scripts/outside-checks $(WAITING_OUTSIDE)

test-outside-others:
	scripts/outside-checks . $(WAITING_OUTSIDE:%=--ignore=Tests/outside/%)

smoke-outside:
	scripts/outside-checks $(SMOKE_OUTSIDE)

# Whether a small job costs more than Benchmarks/ledger/budget.json allows. Alone on the machine.
test-ledger:
	python3 Benchmarks/ledger/ledger.py --ferry $(FERRY) --check

# Writes that file, for a commit that needs more and says why. Alone on the machine.
record-budget: install-test-deps release
	python3 Benchmarks/ledger/ledger.py --ferry $(FERRY) --record-budget

install-deps:
	@scripts/install-system-packages run

install-test-deps:
	@scripts/install-system-packages run test ledger

format:
	$(SWIFT) format --in-place --recursive Package.swift Sources Tests

# Both run in `make test`.
lint: lint-format build-tests

lint-format:
	$(SWIFT) format lint --strict --parallel --recursive Package.swift Sources Tests

# The compose file, the image's recipe and the proxy's configuration, without a Docker daemon.
check-compose: install-test-deps
	scripts/outside-checks test_compose.py

# Passwords and keys for docker compose, made once.
secrets:
	@scripts/make-secrets

# Ferry beside its peers: make bench-peers WORKLOADS=W1,W5 PEERS=ferry,rclone,aria2
bench-peers: install-deps release
	scripts/benchmark-peers "$(WORKLOADS)" "$(PEERS)" $(ARGS)

# Whether memory stays flat: 100,000 small downloads, and large ones onto a disk that is slower than the network.
bench-memory: install-test-deps release
	python3 Benchmarks/memory/memory.py --ferry $(FERRY) $(ARGS)

# What webhooks and streams of events cost: make bench-webhooks ARGS="--lines 2,3"
bench-webhooks: install-test-deps release
	python3 Benchmarks/webhooks/webhooks.py --ferry $(FERRY) $(ARGS)

# Copies, stores and staged uploads beside curl, boto3, rclone and nginx: make bench-places ARGS="--only copy,store"
bench-places: install-test-deps release
	@scripts/install-system-packages bench rclone
	.build/venv/bin/python Benchmarks/places/places.py --ferry $(FERRY) $(ARGS)

# The hot pieces alone.
bench-micro: install-test-deps
	$(SWIFT) run -c release microbench

# How long submissions take while transfers run: make bench-submit ARGS="--seconds 60"
bench-submit: install-test-deps release
	python3 Benchmarks/submit/submit.py --ferry $(FERRY) $(ARGS)

# How long lists take with a long history, beside clients that read continuously: make bench-lists ARGS="--jobs 100000"
bench-lists: install-test-deps release
	python3 Benchmarks/lists/lists.py --ferry $(FERRY) $(ARGS)

# What a small job costs in each stage: instructions, allocations, system calls, statements, WAL; no times.
bench-ledger: install-deps release
	@scripts/install-system-packages ledger
	python3 Benchmarks/ledger/ledger.py --ferry $(FERRY) $(ARGS)

# A cluster under a random load while everything around it fails: make soak ARGS="--seconds 600 --seed 7 --nodes 3"
soak: install-test-deps release
	python3 Benchmarks/soak/soak.py --ferry $(FERRY) $(ARGS)

# The queue where queues become slow: make bench-queue QUEUE="backlog snapshot=60"; alone, some minutes each.
bench-queue: install-test-deps
	$(SWIFT) run -c release microbench $(or $(QUEUE),all)

bench-report:
	@scripts/benchmark-peers --report

clean:
	rm -rf .build .build-memory .build-races
