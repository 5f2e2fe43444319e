// Command perdure-temporal is perdure with Temporal as its scheduler, for a store that several
// machines work on.
//
// It may import anything, and only starts internal/app with what package program adds. The one
// thing to know: Main first turns this program into the supervisor of a command when it was started
// as one.
package main

import (
	"github.com/perdure/perdure/engine/temporal/internal/program"
	"github.com/perdure/perdure/internal/app"
)

func main() { app.Main(program.New()) }
