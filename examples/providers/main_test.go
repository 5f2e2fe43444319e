package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// TestRun stores a provider and asks its model, and asks it again from the next process, which gets
// neither URL nor key. The key is not in the database.
func TestRun(t *testing.T) {
	t.Parallel()
	const key = "k-of-the-example-of-providers"
	m, err := scripted.Parse("word", []byte("steps:\n  - text: Hello.\n    repeat: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(openaitest.New(m, openaitest.Config{Key: key}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	var out strings.Builder

	for _, given := range [][]string{{server.URL + "/v1", "small"}, nil} {
		if err := run(t.Context(), dir, given, strings.NewReader(key+"\n"), &out); err != nil {
			t.Fatal(err)
		}
	}

	if got := out.String(); got != "Hello.\nHello.\n" {
		t.Errorf("got %q", got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), key) {
			t.Errorf("%s contains the key", path)
		}
	}
}
