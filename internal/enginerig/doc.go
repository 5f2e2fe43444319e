// Package enginerig is what the tests of every engine share: the tools that enginetest's Setup names, the world that
// they reach, the host's policies, and a store that dies with its engine.
//
// It may import what tests import; no file that is not a test imports it. The one thing to know: an [Outside] outlives
// the engines. What was done in it, and who waits in it, is the same after a crash.
package enginerig
