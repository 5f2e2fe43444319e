// Package redact removes secrets from everything that leaves the process: error texts, logs,
// events, lists.
//
// It may import none of our packages. The one thing to know: it answers two different questions,
// which must not be mixed. A [Set] knows the values of secrets and removes them from anything,
// including what a model reads. A [Redactor] knows the names of secrets and removes the values
// under them; that is for people only: logs, lists, error texts.
package redact

import "errors"

// Mark replaces a secret.
const Mark = "<redacted>"

// Unprintable replaces a document that cannot be shown safely.
const Unprintable = "<unprintable>"

// Secret masks one secret. nil masks nothing. Safe for concurrent use.
type Secret struct{ known *table }

// NewSecret returns a masker of one secret, in every form that a [Set] finds; nil for the empty
// string. The error is always nil.
func NewSecret(secret string) (*Secret, error) {
	if secret == "" {
		return nil, nil
	}
	return &Secret{known: newTable([][]form{formsOf(secret)})}, nil
}

// Mask replaces the secret in a text.
func (s *Secret) Mask(text string) string {
	if s == nil {
		return text
	}
	return s.known.mask(text)
}

// MaskError returns err, or an error with only its masked text if the text contains the secret. nil
// stays nil.
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
