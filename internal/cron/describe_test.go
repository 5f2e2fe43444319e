package cron_test

import (
	"testing"

	"github.com/perdure/perdure/internal/cron"
)

// TestWords reads as a person would say it.
func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"30 2 * * *":           "at 02:30, every day",
		"0 9 * * 1-5":          "at 09:00, from Monday to Friday",
		"0 9,17 * * 0,6":       "at 09:00 and 17:00, on Saturday and Sunday",
		"*/10 * * * *":         "every 10 minutes, every day",
		"*/15 9-17 * * 1":      "every 15 minutes from 09:00 to 17:45, on Monday",
		"@hourly":              "every hour, every day",
		"* * * * *":            "every minute, every day",
		"5,50 * * * *":         "at minutes 5 and 50 of every hour, every day",
		"0 */3 * * *":          "at minute 0 of every hour, in the hours 00, 03, 06, 09, 12, 15, 18 and 21, every day",
		"0 0 1 * *":            "at 00:00, on day 1 of the month",
		"0 0 13 * 5":           "at 00:00, on day 13 of the month and on Friday",
		"0 9 */2 * 1":          "at 09:00, on days 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month if that is Monday",
		"0 0 29 2 *":           "at 00:00, on day 29 of the month, in February",
		"0 6 1-31 1,7 2":       "at 06:00, every day, in January and July",
		"0,1,2,3,30 * * * 1-3": "at minutes 0, 1, 2, 3 and 30 of every hour, from Monday to Wednesday",
	} {
		spec, err := cron.Parse(text)
		if got := spec.Describe(); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
}
