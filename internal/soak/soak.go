// Package soak sets the counts of tests that repeat themselves: attacks, random programs, kills.
//
// Tests come in two tiers. Everything without a build tag is the first tier, which make test runs
// with small counts. A test file with the build tag soak belongs to the second tier: kill loops,
// power cuts, storms and large counts, which make soak runs. The environment variable SCALE selects
// the counts of the second tier: ci (the default) takes minutes, full takes hours.
//
// The package may import the standard library only, and only test files import it.
package soak

import (
	"os"
	"strconv"
	"testing"
)

// Count returns how many trials a test makes. The environment variable called name wins when it is
// set; without it the result is full under SCALE=full and few otherwise. A count below 1, or a
// SCALE other than ci and full, fails the test.
func Count(t testing.TB, name string, few, full int) int {
	t.Helper()
	if text := os.Getenv(name); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q: want a whole number of at least 1", name, text)
		}
		return n
	}
	switch scale := os.Getenv("SCALE"); scale {
	case "", "ci":
		return few
	case "full":
		return full
	default:
		t.Fatalf("SCALE=%q: want ci or full", scale)
		return 0
	}
}
