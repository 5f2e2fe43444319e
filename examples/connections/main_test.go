package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAccountIsConnected runs the program twice over the same data: the user authorizes once, while
// the turn waits. The token is in no file in the clear.
func TestAccountIsConnected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opened := 0
	browser := func(address string) {
		opened++
		resp, err := http.Get(address) // follows the way back to the program
		if err != nil {
			t.Error(err)
			return
		}
		page, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil || !strings.Contains(string(page), "is connected") {
			t.Errorf("the browser shows %d %s, %v", resp.StatusCode, page, err)
		}
	}
	for _, want := range []string{
		"ada connects the tracker\nYou have 3 open issues.\n",
		"You have 3 open issues.\n",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), dir, browser, &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
	if opened != 1 {
		t.Errorf("the user authorized %d times", opened)
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte(tokenPrefix)) {
			t.Errorf("%s contains a token, or cannot be read: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
