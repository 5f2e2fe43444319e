package openai

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/perdure/perdure/model"
)

// TestBounded: an answer without end is left with an error that says so. It looks inside, because 256 MiB take long.
func TestBounded(t *testing.T) {
	t.Parallel()
	body := &bounded{ReadCloser: io.NopCloser(strings.NewReader("abcdef")), left: 4}

	got, err := io.ReadAll(body)

	if string(got) != "abcd" || !errors.Is(err, errTooLong) {
		t.Errorf("got %q, %v", got, err)
	}
	if e := broken(err); e.Code != model.Processing || !strings.Contains(e.Text, "256 MiB") {
		t.Errorf("got %v", e)
	}
}
