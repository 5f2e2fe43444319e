package cron_test

import (
	"archive/zip"
	"bytes"
	"go/build"
	"io"
	"path/filepath"
	"testing"
	"time"
)

// goZones returns every zone of the data that come with Go, whatever the machine has of its own. Of
// those that are the same under several names it returns one.
func goZones(t testing.TB) []*time.Location {
	t.Helper()
	file := filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip")
	archive, err := zip.OpenReader(file)
	if err != nil {
		t.Fatalf("the zones of Go are read from its installation: %v; set GOROOT to it", err)
	}
	defer func() {
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
	}()
	var zones []*time.Location
	seen := make(map[string]bool)
	for _, entry := range archive.File {
		if content := read(t, entry); bytes.HasPrefix(content, []byte("TZif")) && !seen[string(content)] {
			seen[string(content)] = true
			zone, err := time.LoadLocationFromTZData(entry.Name, content)
			if err != nil {
				t.Fatal(err)
			}
			zones = append(zones, zone)
		}
	}
	if len(zones) < 300 {
		t.Fatalf("only %d zones that differ in %s", len(zones), file)
	}
	return zones
}

func read(t testing.TB, entry *zip.File) []byte {
	t.Helper()
	in, err := entry.Open()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(in)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return content
}
