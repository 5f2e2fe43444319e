package core

import (
	"cmp"
	"context"
	_ "embed" // the tool description
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed get_current_time.md
var getCurrentTimeText string

// The layouts of get_current_time.
const (
	humanLayout  = "Monday, 2 January 2006, 15:04:05 MST"
	offsetLayout = "-07:00"
)

type getCurrentTimeIn struct {
	Timezone string `json:"timezone,omitempty" jsonschema:"IANA name, for instance Europe/Berlin. Absent: the session's zone."`
	Format   string `json:"format,omitempty" enum:"iso8601,unix,human" default:"iso8601" jsonschema:"How the field time is written."`
}

type getCurrentTimeOut struct {
	Time      string `json:"time"`
	Timezone  string `json:"timezone"`
	UTCOffset string `json:"utc_offset"`
	Unix      int64  `json:"unix" jsonschema:"Seconds since 1970."`
}

// GetCurrentTime returns the tool that returns the current time.
func GetCurrentTime() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "get_current_time",
		DisplayName: "Get Current Time",
		Description: described(getCurrentTimeText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Trusted:     true,
		Hints:       tool.Hints{ReadOnly: yes()},
	}, getCurrentTime)
}

func getCurrentTime(_ context.Context, in getCurrentTimeIn, env tool.Env) (getCurrentTimeOut, error) {
	zone := strings.TrimSpace(in.Timezone)
	zone = cmp.Or(zone, env.Timezone, "UTC")
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" { // Local would reveal the zone of the host
		return getCurrentTimeOut{}, tool.Errorf("Unknown timezone: %s", zone)
	}
	now := env.Clock().In(location)
	out := getCurrentTimeOut{Timezone: zone, UTCOffset: now.Format(offsetLayout), Unix: now.Unix()}
	switch in.Format {
	case "unix":
		out.Time = strconv.FormatInt(now.Unix(), 10)
	case "human":
		out.Time = now.Format(humanLayout)
	default:
		out.Time = now.Format(time.RFC3339)
	}
	return out, nil
}
