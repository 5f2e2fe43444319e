package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

func TestC08Prefixes(t *testing.T) {
	t.Parallel()
	all := []candidate{
		{id: "task_01abc0", alternateID: "bg_77", description: "first"},
		{id: "task_01abd0", alternateID: "bg_78", description: "second"},
		{id: "task_02"},
	}
	for _, test := range []struct {
		typed, want string
		code        int
	}{
		{"task_01abc0", "task_01abc0", exitOK},
		{"task_01abc", "task_01abc0", exitOK},
		{"01abd", "task_01abd0", exitOK},
		{"bg_78", "task_01abd0", exitOK},
		{"77", "task_01abc0", exitOK},
		{"02", "task_02", exitOK},
		{"01ab", "", exitConflict},
		{"task_", "", exitConflict},
		{"03", "", exitNotFound},
		{"", "", exitNotFound},
		{"1ab", "", exitNotFound},
	} {
		t.Run(fmt.Sprintf("%q", test.typed), func(t *testing.T) {
			got, err := kind{noun: "task"}.choose(test.typed, all)
			if got != test.want || exitCode(err) != test.code {
				t.Errorf("got %q and %v (exit %d), want %q and exit %d", got, err, exitCode(err), test.want, test.code)
			}
		})
	}

	t.Run("an exact id is never ambiguous", func(t *testing.T) {
		got, err := kind{noun: "tool"}.choose("echo", []candidate{{id: "echo_twice"}, {id: "echo"}})
		if got != "echo" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("what is ambiguous lists the candidates", func(t *testing.T) {
		_, err := kind{noun: "task"}.choose("01ab", all)
		var f *userError
		if !errors.As(err, &f) || !strings.Contains(f.hint, "task_01abc0  first") || !strings.Contains(f.hint, "task_01abd0  second") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a slip of the fingers is recognised", func(t *testing.T) {
		_, err := kind{noun: "tool"}.choose("write_fiel", []candidate{{id: "read_file"}, {id: "write_file"}})
		var f *userError
		if !errors.As(err, &f) || !strings.HasPrefix(f.hint, "did you mean write_file?") || !errors.Is(err, perdure.NotFound) {
			t.Errorf("got %+v", f)
		}
	})
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"/a/b-c.d": "/a/b-c.d", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$HOME": "'$HOME'"} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}
