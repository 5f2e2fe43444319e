package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestPageConfigurations reads the configuration files in the documentation like a server: mcp.json
// and prices.
func TestPageConfigurations(t *testing.T) {
	t.Parallel()
	for page, read := range map[string]func(dir, text string) error{
		"how-to/mcp.md": func(dir, text string) error {
			if err := os.WriteFile(filepath.Join(dir, mcpFile), []byte(text), 0o600); err != nil {
				return err
			}
			_, err := readMCPConfig(dir)
			return err
		},
		"reference/budgets.md": func(dir, text string) error {
			file := filepath.Join(dir, "prices.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
			_, err := readPrices(file)
			return err
		},
	} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s has no block", page)
		}
		for _, block := range found {
			if err := read(t.TempDir(), string(block[1])); err != nil {
				t.Errorf("%s: %v\n%s", page, err, block[1])
			}
		}
		if read(t.TempDir(), `{"no_such_word": 1}`) == nil {
			t.Errorf("%s: a word that nobody knows is taken", page)
		}
	}
}
