// Package core holds the tools that every agent has: echo, the time, arithmetic, progress and a
// list of todos.
//
// The package may import the root package and tool.
//
// The one thing to know: none of the tools accesses anything outside its call, so they work in
// every session, and in tests without one.
package core

import (
	"strings"

	"github.com/perdure/perdure/tool"
)

// Tools returns the tools in the order in which models see them.
func Tools() []tool.Tool {
	return []tool.Tool{GetCurrentTime(), Echo(), ReportProgress(), Add(), Subtract(), Multiply(), Divide(), WriteTodos()}
}

// described returns the text of an embedded tool description.
func described(text string) string { return strings.TrimSpace(text) }

// yes returns a set hint.
func yes() *bool {
	set := true
	return &set
}

// no returns a hint that is false.
func no() *bool { return new(bool) }
