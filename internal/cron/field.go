package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxQuoted bounds how much of a refused text an error repeats.
const maxQuoted = 100

// quoted returns a text for an error: short, and printable whatever it holds.
func quoted(text string) string {
	if len(text) > maxQuoted {
		return strconv.QuoteToASCII(text[:maxQuoted]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

func checkText(text string) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("it has %d bytes, and at most %d are read: use ranges and steps", len(text), MaxBytes)
	}
	for _, r := range text {
		if r == '\t' || r >= ' ' && r <= '~' {
			continue
		}
		return fmt.Errorf("it holds the sign %s: one line of letters, digits and * , - / is read", strconv.QuoteRuneToASCII(r))
	}
	return nil
}

// checkZone refuses a zone inside of the expression: a schedule has a field for it, and two of them could differ.
func checkZone(words []string) error {
	if len(words) == 0 {
		return nil
	}
	if name, _, ok := strings.Cut(strings.ToUpper(words[0]), "="); ok && (name == "TZ" || name == "CRON_TZ") {
		return fmt.Errorf("%s= is not taken: give the zone as the schedule's timezone", name)
	}
	return nil
}

// expand returns the five fields that a word with an @ stands for.
func expand(words []string) (string, error) {
	switch words[0] {
	case "@hourly":
		return alone(words, "0 * * * *")
	case "@daily":
		return alone(words, "0 0 * * *")
	case "@weekly":
		return alone(words, "0 0 * * 0")
	case "@monthly":
		return alone(words, "0 0 1 * *")
	case "@yearly":
		return alone(words, "0 0 1 1 *")
	case "@every":
		return "", errors.New("@every counts from whenever it was started, and so has no fixed times: write them, such as */15 * * * * for every quarter of an hour")
	case "@midnight":
		return "", errors.New("@midnight is not taken: write @daily")
	case "@annually":
		return "", errors.New("@annually is not taken: write @yearly")
	case "@reboot":
		return "", errors.New("@reboot names no time")
	}
	return "", errors.New("of the words with an @, @hourly, @daily, @weekly, @monthly and @yearly are taken, in small letters")
}

func alone(words []string, long string) (string, error) {
	if len(words) > 1 {
		return "", fmt.Errorf("%s stands alone, and here %q follows it", words[0], words[1])
	}
	return long, nil
}

func checkCount(words []string) error {
	const want = "five fields are needed: minute, hour, day of month, month, day of week"
	switch n := len(words); n {
	case 0:
		return errors.New("it is empty: " + want)
	case 5:
		return nil
	case 6, 7:
		return fmt.Errorf("it has %d fields: seconds and years are not taken; %s", n, want)
	default:
		return fmt.Errorf("it has %d fields: %s", n, want)
	}
}

// field is one of the five.
type field struct {
	name      string
	low, high int
	names     string // three letters each, the first for low
}

func fields() [5]field {
	return [5]field{
		{name: "minute", low: 0, high: 59},
		{name: "hour", low: 0, high: 23},
		{name: "day of month", low: 1, high: 31},
		{name: "month", low: 1, high: 12, names: "jan feb mar apr may jun jul aug sep oct nov dec"},
		{name: "day of week", low: 0, high: 7, names: "sun mon tue wed thu fri sat"}, // 7 is Sunday too, and has no name
	}
}

// check returns what is wrong with the text of a field: a list of parts, each a *, a number or a range, and perhaps a step.
func (f field) check(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			return errors.New("a comma has a number before it and one after it")
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
		return fmt.Errorf("behind the / of %q stands a number of one or two digits", part)
	case step == 0:
		return fmt.Errorf("the step of %q is 0, and at least 1 is needed", part)
	case step > 1 && step >= size:
		return fmt.Errorf("the step of %q leaves one number only: write %d", part, low)
	}
	return nil
}

// span reads what stands before a step.
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
			return low, f.high, nil // N/S goes from N to the end
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

// value reads a number or a name.
func (f field) value(word string) (int, error) {
	if n, ok := number(word); ok {
		if n < f.low || n > f.high {
			return 0, fmt.Errorf("%d is not one of %d to %d", n, f.low, f.high)
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
		return 0, errors.New("a number is missing beside a sign")
	case word == "?":
		return 0, errors.New("? is not taken: write *")
	case strings.HasPrefix(word, "*"):
		return 0, errors.New("* stands alone in a field or a list, or before a step, as in */5")
	case len(names) == 0:
		return 0, fmt.Errorf("%q is no number of %d to %d", word, f.low, f.high)
	}
	return 0, fmt.Errorf("%q is neither a number of %d to %d nor one of %s", word, f.low, f.high, strings.Join(names, ", "))
}

// number reads one or two digits.
func number(text string) (int, bool) {
	if text == "" || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
