package perdure_test

import (
	"math"
	"testing"

	"github.com/perdure/perdure"
)

func TestProgressString(t *testing.T) {
	t.Parallel()
	three, eight, zero, part, odd := 3.0, 8.0, 0.0, 2.5, math.NaN()
	for _, c := range []struct {
		progress *perdure.Progress
		want     string
	}{
		{nil, ""}, {&perdure.Progress{}, ""},
		{&perdure.Progress{Current: &three, Total: &eight, Unit: "files", Label: "compiling"}, "3/8 files · compiling"},
		{&perdure.Progress{Current: &three, Total: &eight}, "3/8"},
		{&perdure.Progress{Current: &three, Total: &zero, Unit: "files"}, "3 files"},
		{&perdure.Progress{Current: &part, Unit: "GB"}, "2.5 GB"},
		{&perdure.Progress{Label: "compiling\nmain"}, "compiling main"},
		{&perdure.Progress{Unit: "files", Label: "compiling"}, "compiling"},
	} {
		if got := c.progress.String(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.progress, got, c.want)
		}
	}
	if (&perdure.Progress{Current: &odd}).Finite() || (&perdure.Progress{Total: &odd}).Finite() || !(&perdure.Progress{Total: &three}).Finite() {
		t.Error("what is not a number counts as finite")
	}
}
