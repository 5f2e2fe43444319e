package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxQuoted bounds how much of a refused text an error quotes.
const maxQuoted = 100

// quoted returns a text for an error: short, and printable whatever it contains.
func quoted(text string) string {
	if len(text) > maxQuoted {
		return strconv.QuoteToASCII(text[:maxQuoted]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

func checkText(text string) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("%d bytes are too long, at most %d are allowed: use ranges and steps", len(text), MaxBytes)
	}
	for _, r := range text {
		if r == '\t' || r >= ' ' && r <= '~' {
			continue
		}
		return fmt.Errorf("the character %s is not allowed: write one line of letters, digits and * , - /", strconv.QuoteRuneToASCII(r))
	}
	return nil
}

// checkZone refuses a zone inside the expression: a schedule has a field for the zone, and the two
// could differ.
func checkZone(words []string) error {
	if len(words) == 0 {
		return nil
	}
	if name, _, ok := strings.Cut(strings.ToUpper(words[0]), "="); ok && (name == "TZ" || name == "CRON_TZ") {
		return fmt.Errorf("%s= is not supported: set the schedule's timezone instead", name)
	}
	return nil
}

// expand returns the five fields that a macro such as @daily stands for.
func expand(words []string) (string, error) {
	switch words[0] {
	case "@hourly":
		return aloneOnly(words, "0 * * * *")
	case "@daily":
		return aloneOnly(words, "0 0 * * *")
	case "@weekly":
		return aloneOnly(words, "0 0 * * 0")
	case "@monthly":
		return aloneOnly(words, "0 0 1 * *")
	case "@yearly":
		return aloneOnly(words, "0 0 1 1 *")
	case "@every":
		return "", errors.New("@every counts from its start and has no fixed times: write fixed times, for example */15 * * * * for every 15 minutes")
	case "@midnight":
		return "", errors.New("@midnight is not supported: write @daily")
	case "@annually":
		return "", errors.New("@annually is not supported: write @yearly")
	case "@reboot":
		return "", errors.New("@reboot has no time")
	}
	return "", errors.New("the supported macros are @hourly, @daily, @weekly, @monthly and @yearly, in lower case")
}

func aloneOnly(words []string, long string) (string, error) {
	if len(words) > 1 {
		return "", fmt.Errorf("%s must stand alone, but %q follows it", words[0], words[1])
	}
	return long, nil
}

func checkCount(words []string) error {
	const want = "five fields are needed: minute, hour, day of month, month, day of week"
	switch n := len(words); n {
	case 0:
		return errors.New("the expression is empty: " + want)
	case 5:
		return nil
	case 6, 7:
		return fmt.Errorf("the expression has %d fields: seconds and years are not supported; %s", n, want)
	default:
		return fmt.Errorf("the expression has %d fields: %s", n, want)
	}
}

// field is one of the five fields.
type field struct {
	name      string
	low, high int
	names     string // three letters each; the first stands for low
}

func fields() [5]field {
	return [5]field{
		{name: "minute", low: 0, high: 59},
		{name: "hour", low: 0, high: 23},
		{name: "day of month", low: 1, high: 31},
		{name: "month", low: 1, high: 12, names: "jan feb mar apr may jun jul aug sep oct nov dec"},
		// 7 is Sunday, too, and has no name.
		{name: "day of week", low: 0, high: 7, names: "sun mon tue wed thu fri sat"},
	}
}

// check returns what is wrong with the text of a field: a list of parts, each a *, a number or a
// range, with an optional step.
func (f field) check(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			return errors.New("a comma must have a number before and after it")
		}
		if err := f.checkPart(part); err != nil {
			return err
		}
	}
	return nil
}

func (f field) checkPart(part string) error {
	span, stepText, stepped := strings.Cut(part, "/")
	low, high, err := f.span(span, stepped)
	if err != nil || !stepped {
		return err
	}
	step, ok := number(stepText)
	switch size := high - low + 1; {
	case !ok:
		return fmt.Errorf("a number of one or two digits must follow the / of %q", part)
	case step == 0:
		return fmt.Errorf("the step of %q is 0, and must be at least 1", part)
	case step > 1 && step >= size:
		return fmt.Errorf("the step of %q leaves only one number: write %d", part, low)
	}
	return nil
}

// span parses the part before a step.
func (f field) span(text string, stepped bool) (low, high int, err error) {
	if text == "*" {
		return f.low, f.high, nil
	}
	first, last, ranged := strings.Cut(text, "-")
	if low, err = f.value(first); err != nil {
		return 0, 0, err
	}
	if !ranged {
		if stepped {
			return low, f.high, nil // N/S means from N to the end
		}
		return low, low, nil
	}
	if high, err = f.value(last); err != nil {
		return 0, 0, err
	}
	if low > high {
		hint := fmt.Sprintf("write two ranges, such as %d-%d,%d-%d", low, f.high, f.low, high)
		if f.high == 7 && high == 0 {
			hint = fmt.Sprintf("Sunday at the end of a range is 7, so write %d-7", low)
		}
		return 0, 0, fmt.Errorf("the range %q runs backwards: %s", text, hint)
	}
	return low, high, nil
}

// value parses a number or a name.
func (f field) value(word string) (int, error) {
	if n, ok := number(word); ok {
		if n < f.low || n > f.high {
			return 0, fmt.Errorf("%d is not between %d and %d", n, f.low, f.high)
		}
		return n, nil
	}
	names := strings.Fields(f.names)
	for i, name := range names {
		if strings.EqualFold(name, word) {
			return f.low + i, nil
		}
	}
	switch {
	case word == "":
		return 0, errors.New("a number is missing")
	case word == "?":
		return 0, errors.New("? is not supported: write *")
	case strings.HasPrefix(word, "*"):
		return 0, errors.New("* must stand alone in a field or a list, or before a step, as in */5")
	case len(names) == 0:
		return 0, fmt.Errorf("%q is not a number from %d to %d", word, f.low, f.high)
	}
	return 0, fmt.Errorf("%q is neither a number from %d to %d nor one of %s", word, f.low, f.high, strings.Join(names, ", "))
}

// number parses one or two digits.
func number(text string) (int, bool) {
	if text == "" || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
