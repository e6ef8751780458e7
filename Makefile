# The commands of this project. Each first installs the system packages that it needs.

SHELL := /bin/bash

# Options of `tideline serve`: make run ARGS='--listen 127.0.0.1:9000'
ARGS ?=
# The database; `postgres` starts a separate PostgreSQL in .build/postgres.
DATABASE ?= sqlite:tideline.db

# The limit in seconds for `make test` on two cores, including the build.
TEST_LIMIT ?= 2700

# Whether `make test` runs all tests: also lock contention, process kills, all combinations of databases, and many more
# seeds. CI sets it.
ALL ?=
ifneq ($(ALL),)
export TIDELINE_TESTS := all
endif

# The limit for `make check`, which builds three times: in debug mode, in release mode to count allocations, and for the
# thread sanitizer.
CHECK_LIMIT ?= 4200

# The limit for `make protocol`, including the build.
PROTOCOL_LIMIT ?= 1800

# The seeds of `make simulation`: a count, or the first seed and a count.
SEEDS ?= 10000

# The test targets that do not run with the others, because they have deadlines or need all cores.
SOCKETS := TidelineHTTPTests TidelineTLSTests TidelineTransportTests
SIMULATIONS := SimulationTests ServerSimulationTests
INTEGRATION := IntegrationTests
# They measure time. Their tests run one after the other, because other tests would take their time.
DEADLINES := TidelineDeadlineTests ServerDeadlineTests
# The test targets that `make check` builds and runs with the thread sanitizer: those for code that the compiler does
# not check for data races (event loops, C libraries), and those that run clients against servers. `make nightly` builds
# all test targets with it.
THREADS := SanitizerTests,TidelineHTTPTests,TidelineTLSTests,TidelineTransportTests,$\
    TidelineServerSQLiteTests,TidelineServerTests,IntegrationTests

# The tests of `make cipher` on Debian 12's SQLCipher: the suites of stores, tables and queues, without the tests that
# need our server, a search index, SQLite's JSON functions or a newer ALTER TABLE.
CIPHER_SUITES := Account|Attempt|BulkChange|CancelledChange|ChangedModel|ChangedType|Changes|Conflict|Conformance|$\
    ContextObserve|CustomPolicy|EncryptedStore|EncryptedStoreSecret|History|HostileUse|InsertMany|KeptAsItCame|$\
    LiveList|LiveQuery|LiveValue|Localized|LocalizedIndex|LockWait|NarrowRead|Observe|ObserveReach|ODataQuery|$\
    OlderRecord|Outcome|Parked|Pull|QueryForms|RelatedChange|RelatedCondition|RelatedConditionObserve|$\
    RelatedMixedState|RelatedNaive|RelatedObserve|RelatedRead|RelatedRowsRead|RowChecksum|SQLiteFile|StoreCheck|$\
    StoreClose|SyncTable|SyncTurns|TableIndex|Totals|Transaction
CIPHER_SKIPPED := rowsQueueErrorsAndCursorsOutliveAChangeOfTheModel|aModelsColumnsMatchTheServersInAnyCase|$\
    searches|cursorsAndQueryMembershipBelongToTheirTableInAnyCase|aStoreWithoutAnApplicationIDIsOpened|$\
    aRowWithoutAChecksumIsUnknown|aFileWithoutAWriteAheadLogIsRejected|anOlderAnswerLeavesTheQuery|$\
    verifyPurgeAndCheckReportTheirProgress|unusualLimitsDoNotTrap|unusualTimesDoNotTrap

# The maximum number of concurrent tests. Without it the tests delay each other until some reach their time limits.
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH ?= 12

FORMATTED := $(wildcard Sources Tests Examples Benchmarks Package.swift) \
    $(wildcard Fuzz/Targets Fuzz/Sources/fuzz Fuzz/Package.swift)
TEST := swift test --skip-build --disable-xctest --quiet
RESULTS := .build/tests
# Runs only some test targets, or all others: $(call only,TARGETS), $(call except,TARGETS).
only = $(foreach target,$(1),--filter "^$(target)\.")
except = $(foreach target,$(1),--skip "^$(target)\.")
report = --event-stream-output-path $(RESULTS)-$(1).events --xunit-output $(RESULTS)-$(1).xml; s=$$?; scripts/test-times $(RESULTS)-$(1).xml; exit $$s

.PHONY: help run test check nightly cipher simulation worlds demo page proxies deb deb-test dist dist-test litestream bench failover chaos docs format clean
.PHONY: postgres18 protocol allocations

help:
	@echo 'make run         build the server and start it on tideline.db (ARGS=... is passed on)'
	@echo 'make test        build and run the tests; with the slow ones: ALL=yes'
	@echo 'make check       format, imports, warnings as errors, rules, documentation, Apple branches, allocations, dashboard, some tests under the thread sanitizer'
	@echo 'make nightly     both sanitizers, 90,000 simulations, SQLCipher, PostgreSQL 18, failover, chaos'
	@echo 'make cipher      the tests of stores on SQLCipher: encrypted files, an old SQLite and a current one'
	@echo 'make protocol    transcripts and cases of all routes on PostgreSQL and in memory; make test runs them on SQLite'
	@echo 'make allocations allocations of each operation (ARGS=--record writes the thresholds; ARGS="--stacks create")'
	@echo 'make simulation  10,000 seeded simulations (SEEDS=...), in release mode; also make worlds'
	@echo 'make demo        a demo with two devices and a server on the terminal, or on a web page (ARGS=--page)'
	@echo 'make page        tests of the dashboard in a browser, while a device syncs'
	@echo 'make proxies     tests of the configurations for nginx and Caddy with the real programs'
	@echo 'make deb         a Debian package of server and tool, in .build/packages; deb-test tests it'
	@echo 'make dist        a tarball of them that includes the Swift runtime; dist-test tests it'
	@echo 'make litestream  tests of Litestream with a server under writes'
	@echo 'make failover    kills the primary of PostgreSQL under load, with Patroni and etcd'
	@echo 'make chaos       kills servers, PostgreSQL and PgBouncer at random under load, and compares all rows'
	@echo 'make postgres18  the tests that need PostgreSQL, on version 18'
	@echo 'make bench       benchmarks of server and client, in release mode'
	@echo 'make docs        the documentation of the client as a site, in .build/docs'
	@echo 'make format      format all sources in place'
	@echo 'make clean       remove build products, but keep databases'

run:
	@scripts/bootstrap $(if $(filter postgres,$(DATABASE)),run-postgres,run)
	swift build -c release --product tideline
	$(if $(filter postgres,$(DATABASE)),scripts/with-postgres) \
	    .build/release/tideline serve --database $(DATABASE) $(ARGS)

test:
	@scripts/timed --limit $(TEST_LIMIT) \
	    'packages' 'scripts/bootstrap test' \
	    'build' 'swift build --build-tests' \
	    'tests' '$(TEST) $(call except,$(SOCKETS) $(SIMULATIONS) $(INTEGRATION) $(DEADLINES)) $(call report,units)' \
	    'deadlines' '$(TEST) --no-parallel $(call only,$(DEADLINES)) $(call report,deadlines)' \
	    'sockets' '$(TEST) $(call only,$(SOCKETS)) $(call report,sockets)' \
	    'simulations' '$(TEST) $(call only,$(SIMULATIONS)) $(call report,simulations)' \
	    'integration' '$(TEST) $(call only,$(INTEGRATION)) $(call report,integration)'

check:
	@scripts/bootstrap check
	@scripts/bootstrap page
	@scripts/timed --keep-going --limit $(CHECK_LIMIT) \
	    'format' 'swift format lint --strict --recursive --parallel $(FORMATTED)' \
	    'build, imports declared' 'swift build --build-tests --explicit-target-dependency-import-check error' \
	    'rules of the repository' '$(TEST) $(call only,RepositoryTests)' \
	    'documentation' 'scripts/docs --check --skip-build' \
	    'branches for Apple platforms' 'scripts/apple --self-test' \
	    'allocations' 'swift build -c release --product allocations && .build/release/allocations --check' \
	    'dashboard in a browser' 'python3 Tests/Browser/dashboard.py .build/debug/tideline --required' \
	    'thread: build, self-test' 'TIDELINE_TEST_TARGETS=$(THREADS) scripts/sanitize --self-test thread' \
	    'thread: tests' 'TIDELINE_TEST_TARGETS=$(THREADS) scripts/sanitize thread'

# The checks that take too long for each change.
nightly: export TIDELINE_TESTS = all
nightly:
	@scripts/bootstrap check
	@scripts/timed --keep-going \
	    'tests' '$(MAKE) test' \
	    'address: build, self-test' 'scripts/sanitize --self-test address' \
	    'address: tests' 'scripts/sanitize address' \
	    'thread: tests' 'scripts/sanitize thread' \
	    'simulation' '$(MAKE) simulation SEEDS=30000' \
	    'simulation of relations' '$(MAKE) worlds SEEDS="--relations 30000"' \
	    'simulation of rules' '$(MAKE) worlds SEEDS="--rules 30000"' \
	    'SQLCipher' '$(MAKE) cipher' \
	    'PostgreSQL 18' '$(MAKE) postgres18' \
	    'failover' '$(MAKE) failover' \
	    'chaos' '$(MAKE) chaos'

# Tests Debian 12's SQLCipher, the oldest that a store works with, and a current one, which has full-text search. Each
# has its own folder, because the trait changes every module. Builds only the part of the package that a Mac can build.
SQLCIPHER_VERSION := 4.6.1
SQLCIPHER := $(CURDIR)/.build/sqlcipher-$(SQLCIPHER_VERSION)
WITH_SQLCIPHER := PKG_CONFIG_PATH="$(SQLCIPHER)/lib/pkgconfig:$$PKG_CONFIG_PATH"
OLD_CIPHER := --traits SQLCipher --scratch-path .build/cipher
CURRENT_CIPHER := --traits SQLCipher --scratch-path .build/current-cipher

cipher: export TIDELINE_ONLY_CLIENT = 1
cipher:
	@scripts/bootstrap cipher
	swift build --build-tests $(OLD_CIPHER)
	$(TEST) $(OLD_CIPHER) \
	    --filter '^TidelineTests\.($(CIPHER_SUITES))Tests' --skip '/($(CIPHER_SKIPPED))\('
	scripts/build-sqlcipher $(SQLCIPHER_VERSION) '$(SQLCIPHER)'
	$(WITH_SQLCIPHER) swift build --build-tests $(CURRENT_CIPHER)
	@# The skipped test needs a SQLite that stores a database without a name in a file.
	$(WITH_SQLCIPHER) $(TEST) $(CURRENT_CIPHER) \
	    $(call only,TidelineTests) --skip '/aFileWithoutAWriteAheadLogIsRejected\('

protocol:
	@scripts/timed --limit $(PROTOCOL_LIMIT) \
	    'packages' 'scripts/bootstrap test' \
	    'build' 'swift build --build-tests' \
	    'routes on PostgreSQL' 'TIDELINE_STORE=postgres $(TEST) $(call only,TidelineProtocolTests) $(call report,protocol)' \
	    'routes in memory' 'TIDELINE_STORE=memory $(TEST) $(call only,TidelineProtocolTests) $(call report,memory)'

allocations:
	@scripts/bootstrap check
	swift build -c release --product allocations
	.build/release/allocations $(ARGS)

simulation worlds:
	@scripts/bootstrap test
	swift build -c release --product worlds
	.build/release/worlds $(SEEDS)

demo:
	@scripts/bootstrap demo
	@scripts/demo $(ARGS)

page:
	@scripts/bootstrap page
	swift build -c release --product tideline
	python3 Tests/Browser/dashboard.py .build/release/tideline $(ARGS)

proxies:
	@scripts/bootstrap proxies
	swift build -c release --product tideline
	python3 Tests/Deploy/proxies.py .build/release/tideline $(ARGS)

# ARGS='--version 1.2.3' overrides the program's version.
deb dist:
	@scripts/bootstrap package
	scripts/package $@ $(ARGS)

deb-test: deb
	python3 Tests/Deploy/debian.py "$$(ls -t .build/packages/tideline_*.deb | head -1)"

dist-test: dist
	python3 Tests/Deploy/tarball.py "$$(ls -t .build/packages/tideline-*.tar.xz | head -1)"

litestream:
	@scripts/bootstrap package
	swift build -c release --product tideline
	python3 Tests/Deploy/litestream.py .build/release/tideline

bench:
	@scripts/bootstrap bench
	@scripts/bench $(ARGS)

chaos:
	@scripts/bootstrap chaos
	swift build -c release --product tideline
	python3 Tests/Chaos/chaos.py .build/release/tideline $(ARGS)

failover:
	@scripts/bootstrap failover
	swift build -c release --product tideline
	python3 Tests/Failover/failover.py .build/release/tideline $(ARGS)

postgres18:
	@scripts/bootstrap postgres18
	@scripts/postgres18 $(ARGS)

docs:
	@scripts/bootstrap check
	@scripts/docs $(ARGS)

format:
	@scripts/bootstrap check
	swift format --in-place --recursive --parallel $(FORMATTED)

clean:
	rm -rf .build Benchmarks/.build
