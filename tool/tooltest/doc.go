// Package tooltest has test suites for tools and for the ports that tools use, and tools that fail
// on purpose.
//
// The package may import the root package, tool, the local engine and the fakes of stores and
// models. Only tests import it.
//
// The one thing to know: a suite takes a function that returns a fresh subject, and needs nothing
// else.
package tooltest
