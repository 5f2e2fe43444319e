package anthropic

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

const (
	publicURL         = "https://api.anthropic.com"
	defaultMaxTokens  = 8192 // every model since Claude 3.5 can give an answer of this length
	minThinkingTokens = 1024 // required by the API
)

// withDefaults returns the configuration with its defaults filled in.
func (c Config) withDefaults() (Config, error) {
	c.BaseURL = cmp.Or(c.BaseURL, publicURL)
	if err := checkBase(c.BaseURL); err != nil {
		return c, err
	}
	if strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return c, fmt.Errorf("%w Key: it contains a character that is not allowed in a header, "+
			"perhaps a line break; check how it is read", perdure.Invalid)
	}
	if c.MaxTokens < 0 {
		return c, fmt.Errorf("%w MaxTokens %d: use a number of tokens, or 0 for the default",
			perdure.Invalid, c.MaxTokens)
	}
	if c.FirstToken < 0 {
		return c, fmt.Errorf("%w FirstToken %s: use a duration, or 0 for the default", perdure.Invalid, c.FirstToken)
	}
	if c.ThinkingTokens != 0 && c.ThinkingTokens < minThinkingTokens {
		return c, fmt.Errorf("%w ThinkingTokens %d: the minimum is %d; 0 turns thinking off",
			perdure.Invalid, c.ThinkingTokens, minThinkingTokens)
	}
	c.MaxTokens = cmp.Or(c.MaxTokens, defaultMaxTokens+c.ThinkingTokens)
	if c.ThinkingTokens >= c.MaxTokens {
		return c, fmt.Errorf("%w ThinkingTokens %d: the budget is part of MaxTokens (%d) and must be smaller", perdure.Invalid, c.ThinkingTokens, c.MaxTokens)
	}
	if c.HTTP == nil {
		client, err := egress.ForURL(c.BaseURL)
		if err != nil {
			return c, fmt.Errorf("BaseURL: %w", err)
		}
		c.HTTP = client
	}
	return c, nil
}

func checkBase(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		// The parser's error contains the URL, which may contain a password.
		return fmt.Errorf("%w BaseURL: it is not a URL; use one like %s", perdure.Invalid, publicURL)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("%w BaseURL: it needs http:// or https:// and a host, like %s", perdure.Invalid, publicURL)
	case u.User != nil:
		return fmt.Errorf("%w BaseURL: it contains a user or a password; put a key into Key", perdure.Invalid)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%w BaseURL: it has a query or a fragment; remove everything after the path", perdure.Invalid)
	}
	return nil
}
