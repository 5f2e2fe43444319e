package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/internal/redact"
)

// TestS18Forms: no form of a secret that can be decoded survives, wherever in a text it stands.
func TestS18Forms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[!-~]{8,40}`).Draw(t, "secret")
		before := rapid.StringMatching(`[ -~]{0,5}`).Draw(t, "before")
		s, err := redact.NewSecret(secret)
		if err != nil {
			t.Fatal(err)
		}
		wrapped := []byte(before + secret + "after")

		for form, text := range map[string]string{
			"plain": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
			"hex":       hex.EncodeToString([]byte(secret)),
			"upper hex": strings.ToUpper(hex.EncodeToString([]byte(secret))), "json": jsonEscaped(secret),
		} {
			if got := s.Mask("x " + text + " y"); got != "x "+redact.Mark+" y" {
				t.Errorf("%s: %q became %q", form, text, got)
			}
		}
		for name, code := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.RawURLEncoding} {
			text := code.EncodeToString(wrapped)
			if got := s.Mask(text); got == text || !strings.Contains(got, redact.Mark) {
				t.Errorf("base64 %s: %q became %q", name, text, got)
			}
		}
	})
}

// jsonEscaped writes every character as \u00xx.
func jsonEscaped(secret string) string {
	var out strings.Builder
	for _, c := range utf16.Encode([]rune(secret)) {
		fmt.Fprintf(&out, `\u%04x`, c)
	}
	return out.String()
}

func TestMaskError(t *testing.T) {
	t.Parallel()
	s, err := redact.NewSecret("a-long-secret")
	if err != nil {
		t.Fatal(err)
	}
	harmless := errors.New("no such host")

	if got := s.MaskError(harmless); got != harmless {
		t.Errorf("got %v, want the error itself", got)
	}
	if got := s.MaskError(fmt.Errorf("a-long-secret: %w", harmless)); got.Error() != redact.Mark+": no such host" ||
		errors.Is(got, harmless) {
		t.Errorf("got %v, want its masked text and nothing of the chain", got)
	}
	if none, err := redact.NewSecret(""); err != nil || none.Mask("a-long-secret") != "a-long-secret" ||
		none.MaskError(nil) != nil {
		t.Errorf("the empty secret masks: %v", err)
	}
}
