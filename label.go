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
	MaxLabels          = 64  // of a session
	MaxLabelKeyBytes   = 63  //
	MaxLabelValueBytes = 256 //
	MaxLabelTerms      = 16  // of one filter
)

// Labels are words that people put on a session, by which they find it again. Nothing else comes of them: no model is shown
// them, and nothing is decided by them. Nil is none. They are never changed in place.
type Labels map[string]string

// Check says what is wrong with labels; it is Invalid.
func (l Labels) Check() error {
	if len(l) > MaxLabels {
		return fmt.Errorf("%w labels: there are %d; a session has at most %d", Invalid, len(l), MaxLabels)
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

// With returns the labels after changes. Nil: none is left.
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

// LabelChanges is what is to become of some labels; nil removes one. Those that it does not name stay as they are.
type LabelChanges map[string]*string

// Against returns what of the changes is new to labels: one that is there already, or is gone already, is not.
func (c LabelChanges) Against(l Labels) LabelChanges {
	left := LabelChanges{}
	for key, value := range c {
		if old, there := l[key]; there != (value != nil) || there && old != *value {
			left[key] = value
		}
	}
	return left
}

// LabelTerm asks for a label: "key" for whatever value it has, or "key=value" for this one.
type LabelTerm string

// Parts takes a term apart. Not exact: any value will do.
func (t LabelTerm) Parts() (key, value string, exact bool) { return strings.Cut(string(t), "=") }

// Check says what is wrong with a term; it is Invalid.
func (t LabelTerm) Check() error {
	key, value, _ := t.Parts()
	return checkLabel(key, value)
}

// LabelFilter matches what has all of its labels. Empty: everything.
type LabelFilter []LabelTerm

// Check says what is wrong with a filter; it is Invalid.
func (f LabelFilter) Check() error {
	if len(f) > MaxLabelTerms {
		return fmt.Errorf("%w filter: it asks for %d labels; at most %d", Invalid, len(f), MaxLabelTerms)
	}
	for _, term := range f {
		if err := term.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Matches reports whether labels have all that the filter asks for.
func (f LabelFilter) Matches(l Labels) bool {
	for _, term := range f {
		key, want, exact := term.Parts()
		if value, there := l[key]; !there || exact && value != want {
			return false
		}
	}
	return true
}
