package cron_test

import (
	"fmt"
	"time"

	"github.com/perdure/perdure/internal/cron"
)

func ExampleSpec_Fires() {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	spec, err := cron.Parse("30 2 * * *")
	if err != nil {
		panic(err)
	}
	for _, fire := range spec.Fires(time.Date(2026, 3, 7, 0, 0, 0, 0, zone), zone, 3) {
		fmt.Printf("%s %q\n", fire.At.Format("Jan 2 15:04 MST"), fire.Clock)
	}

	// Output:
	// Mar 7 02:30 EST ""
	// Mar 8 03:00 EDT "gap"
	// Mar 9 02:30 EDT ""
}
