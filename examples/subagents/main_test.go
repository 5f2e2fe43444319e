package main

import (
	"bytes"
	"regexp"
	"testing"
)

// TestHire runs the program twice over the same data.
func TestHire(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := regexp.MustCompile(`^refused: There is no agent "critic".*: reviewer\.
The reviewer says: .*I checked names and tests\. Nothing is wrong\..*
review was done by the agent reviewer
$`)
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), dir, &out); err != nil {
			t.Fatal(err)
		}
		if !want.MatchString(out.String()) {
			t.Errorf("got %q, want %s", out.String(), want)
		}
	}
}
