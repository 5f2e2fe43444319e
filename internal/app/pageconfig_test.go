package app

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// readPaymentPage reads a block of a page about payments as the file that it is.
func readPaymentPage(dir, text string) error {
	switch {
	case strings.Contains(text, `"mcpServers"`):
		return readMCPPage(dir, text)
	case strings.Contains(text, `"wallet"`):
		var cfg paymentsConfig
		err := perdure.DecodeJSON([]byte(text), &cfg)
		if err == nil && (cfg.Wallet.URL == "" || len(cfg.Caps) == 0) {
			err = errors.New("it has no wallet or no caps")
		}
		return err
	}
	file := filepath.Join(dir, "prices.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, err := readPrices(file)
	return err
}

func readMCPPage(dir, text string) error {
	if err := os.WriteFile(filepath.Join(dir, mcpFile), []byte(text), 0o600); err != nil {
		return err
	}
	home, err := readMCPConfig(dir)
	for name, server := range home.Servers {
		err = errors.Join(err, server.check(name))
	}
	return err
}

// TestPageConfigurations reads the configuration files in the documentation like a server:
// mcp.json, payments.json and prices.
func TestPageConfigurations(t *testing.T) {
	t.Parallel()
	for page, read := range map[string]func(dir, text string) error{
		"how-to/mcp.md": readMCPPage, "reference/budgets.md": readPaymentPage, "how-to/let-tools-pay.md": readPaymentPage,
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
