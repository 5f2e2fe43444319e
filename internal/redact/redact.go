// Package redact takes secrets out of whatever leaves: error texts, logs, events, lists.
//
// It may import nothing of ours. The one thing to know: there are two questions, and they must not be mixed (RD6). A
// [Set] knows the values of secrets and takes them out of anything, also of what a model reads (RD5). A [Redactor]
// knows the names of secrets and takes out what stands under them, which is for people only: logs, lists, error texts
// (RD2).
package redact

import "errors"

// Mark stands where a secret was (RD2).
const Mark = "<redacted>"

// Unprintable stands for a whole document that cannot be shown safely (RD4).
const Unprintable = "<unprintable>"

// Secret is one secret that must not be shown. nil masks nothing. It is safe for concurrent use.
type Secret struct{ known *table }

// NewSecret returns what masks a secret, in every form that a [Set] finds; nil for the empty one. The error is always
// nil.
func NewSecret(secret string) (*Secret, error) {
	if secret == "" {
		return nil, nil
	}
	return &Secret{known: newTable([][]form{formsOf(secret)})}, nil
}

// Mask takes the secret out of a text.
func (s *Secret) Mask(text string) string {
	if s == nil {
		return text
	}
	return s.known.mask(text)
}

// MaskError returns an error as it is, or only its masked text where that shows the secret. nil stays nil.
func (s *Secret) MaskError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if masked := s.Mask(text); masked != text {
		return errors.New(masked)
	}
	return err
}
