// Package tooltest holds the laws of tools and of the ports that tools reach, and tools that fail on demand.
//
// It may import the root, tool, the local engine and the fakes of the stores and models; it is imported by
// tests. The one thing to know: a suite takes a function that makes a fresh subject, and asks nothing else.
package tooltest
