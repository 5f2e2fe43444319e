package sim

import (
	"fmt"
	"slices"
)

// Shrink drops steps and faults of a failing program, as long as the program still fails. fails
// runs a program, in a bubble of its own; Shrink calls it at most tries times.
func Shrink(p Program, tries int, fails func(Program) bool) Program {
	try := func(smaller Program) bool {
		tries--
		if tries < 0 || !fails(smaller) {
			return false
		}
		p = smaller
		return true
	}
	for again := true; again && tries > 0; {
		again = false
		for part := max(len(p.Steps)/2, 1); part > 0; part /= 2 { // halves first
			for i := 0; i+part <= len(p.Steps); {
				smaller := p
				smaller.Steps = slices.Delete(slices.Clone(p.Steps), i, i+part)
				if try(smaller) {
					again = true
					continue
				}
				i += part
			}
		}
		for i := 0; i < len(p.Faults); {
			smaller := p
			smaller.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
			if try(smaller) {
				again = true
				continue
			}
			i++
		}
	}
	return p
}

// Replay returns the command that runs the seed of a program again.
func Replay(p Program) string {
	name := "TestR18Simulation"
	if p.Hosts > 0 {
		name = "TestR18Hosts"
	}
	return fmt.Sprintf("SEED=%d go test -run '^%s$' -v ./internal/sim", p.Seed, name)
}
