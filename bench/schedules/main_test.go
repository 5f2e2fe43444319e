package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestQuickRun runs the whole program: each fire comes once, and each figure exists. It asserts no
// times.
func TestQuickRun(t *testing.T) {
	t.Parallel()
	var progress, table bytes.Buffer
	o := options{schedules: 1_200, due: 10, length: 100 * time.Millisecond, dir: t.TempDir()}

	f, faults, err := measure(t.Context(), o, &progress)

	if err != nil || len(faults) > 0 {
		t.Fatalf("%v, %v\n%s", err, faults, progress.String())
	}
	for i := range reflect.ValueOf(f).NumField() {
		if reflect.ValueOf(f).Field(i).IsZero() {
			t.Errorf("%s is 0", reflect.TypeOf(f).Field(i).Name)
		}
	}
	if f.print(&table); strings.Count(table.String(), "\n") != 6 {
		t.Errorf("printed\n%s", table.String())
	}
}

// TestFlags checks that useless measurements are refused.
func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-due", "0"}, {"-schedules", "0"}, {"-seconds", "0"}, {"all"}} {
		if _, err := parse(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
