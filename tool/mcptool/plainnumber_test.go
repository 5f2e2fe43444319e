package mcptool

import (
	"encoding/json"
	"testing"
)

func TestPlainNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ value, want any }{
		{json.Number("2"), int64(2)},
		{json.Number("-2.5"), -2.5},
		{json.Number("1e400"), json.Number("1e400")}, // no number of Go: the server decides
		{"2", "2"},
		{true, true},
	} {
		if got := plainNumber(c.value); got != c.want {
			t.Errorf("plainNumber(%#v) = %#v, want %#v", c.value, got, c.want)
		}
	}
}
