// Package sim runs seeded random programs against the whole runtime in a bubble of
// testing/synctest: sessions, subagents, lanes, approvals, cancels, faults and crashes at commits,
// in virtual time, over a store in memory. After each step it checks the invariants of
// internal/chaos (R18). With several hosts, engines work under the grants of a scheduler that does
// everything it may do.
//
// It is for tests only, and may import the engine, the ports, their fakes and internal/chaos. The
// one thing to know: every transaction, every view and every step of a tool or model waits at one
// gate, and only when all goroutines are blocked does the seed let one of them pass. So the same
// seed gives the same commits in the same order, and the same trace hash. A bubble must contain
// nothing but one [Scenario]. Ids are the only difference between two runs, so the trace numbers
// them in the order of their appearance.
package sim
