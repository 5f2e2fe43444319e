// Package enginerig is the fixture that the tests of all engines share: the tools that
// enginetest.Setup names, the outside world that they reach, the host's policies, and a store that
// dies with its engine.
//
// It may import what tests import; only test files import it. The one thing to know: an [Outside]
// survives the engines. Its effects, and the tools that wait in it, are the same after a crash.
package enginerig
