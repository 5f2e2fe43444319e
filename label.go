package perdure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of labels.
const (
	MaxLabels          = 64 // of a session
	MaxLabelKeyBytes   = 63
	MaxLabelValueBytes = 256
	MaxLabelTerms      = 16 // of one filter
)

// Labels are key-value pairs that users give a session in order to find it again. The model does
// not see them, and no decision depends on them. nil is no labels. A Labels map is never changed in
// place.
type Labels map[string]string

// Check returns an Invalid error if the labels exceed the limits.
func (l Labels) Check() error {
	if len(l) > MaxLabels {
		return fmt.Errorf("%w labels: there are %d, but a session can have at most %d", Invalid, len(l), MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(l)) {
		if err := checkLabel(key, l[key]); err != nil {
			return err
		}
	}
	return nil
}

func checkLabel(key, value string) error {
	if !labelKey(key) {
		return fmt.Errorf("%w label %.80q: a key has 1 to %d of a-z, 0-9 and . _ / -, and begins and ends with a letter or digit", Invalid, key, MaxLabelKeyBytes)
	}
	if len(value) > MaxLabelValueBytes || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("%w label %s: a value has at most %d bytes of UTF-8, without control characters", Invalid, key, MaxLabelValueBytes)
	}
	return nil
}

func labelKey(key string) bool {
	if key == "" || len(key) > MaxLabelKeyBytes {
		return false
	}
	for i := range len(key) {
		c := key[i]
		plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !plain && (i == 0 || i == len(key)-1 || !strings.ContainsRune("._/-", rune(c))) {
			return false
		}
	}
	return true
}

// With returns the labels after the changes; nil if none are left.
func (l Labels) With(c LabelChanges) Labels {
	if len(c) == 0 {
		return l
	}
	next := Labels{}
	maps.Copy(next, l)
	for key, value := range c {
		if value == nil {
			delete(next, key)
		} else {
			next[key] = *value
		}
	}
	if len(next) == 0 {
		return nil
	}
	return next
}

// LabelChanges sets labels; a nil value removes one. Labels that are not in it stay unchanged.
type LabelChanges map[string]*string

// Against returns the changes that have an effect on l.
func (c LabelChanges) Against(l Labels) LabelChanges {
	left := LabelChanges{}
	for key, value := range c {
		if old, there := l[key]; there != (value != nil) || there && old != *value {
			left[key] = value
		}
	}
	return left
}

// LabelTerm matches a label: "key" with any value, or "key=value" with exactly this one.
type LabelTerm string

// Parts splits a term. Unless exact is true, any value matches.
func (t LabelTerm) Parts() (key, value string, exact bool) { return strings.Cut(string(t), "=") }

// Check returns an Invalid error if the term cannot match any label.
func (t LabelTerm) Check() error {
	key, value, _ := t.Parts()
	return checkLabel(key, value)
}

// LabelFilter matches labels that contain all terms. Empty: everything.
type LabelFilter []LabelTerm

// Check returns an Invalid error if a term is invalid or there are too many.
func (f LabelFilter) Check() error {
	if len(f) > MaxLabelTerms {
		return fmt.Errorf("%w filter: it has %d labels, but at most %d are allowed", Invalid, len(f), MaxLabelTerms)
	}
	for _, term := range f {
		if err := term.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Matches reports whether l contains all terms of the filter.
func (f LabelFilter) Matches(l Labels) bool {
	for _, term := range f {
		key, want, exact := term.Parts()
		if value, there := l[key]; !there || exact && value != want {
			return false
		}
	}
	return true
}
