// Package sim plays seeded random programs against the whole runtime in a bubble of testing/synctest: sessions, subagents, lanes,
// approvals, cancels, faults and deaths at commits, in virtual time, over a store in memory. After each step the invariants
// of internal/chaos are checked (R18).
//
// It is for tests only, and may import the engine, the ports, their fakes and internal/chaos. The one thing to know: every
// transaction, every view and every step of a tool or model waits at one gate, and only when all goroutines are blocked does
// the seed let one of them through. So the same seed gives the same commits in the same order, and the same trace hash. A bubble
// must hold nothing but one [Play]. Which id a thing gets is the one thing that differs, so the trace numbers ids as they appear.
package sim
