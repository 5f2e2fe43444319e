package web

import (
	"context"
	_ "embed" // the text that the model reads
	"net/url"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed get_weather.md
var getWeatherText string

type getWeatherIn struct {
	Location string `json:"location" minLength:"1" maxLength:"200" jsonschema:"A place name such as Berlin, a postal code, or coordinates such as 52.52,13.41."`
	Units    string `json:"units,omitempty" enum:"metric,imperial" default:"metric"`
}

// getWeatherOut has pointers for values that the service may not have: these become null instead of
// 0.
type getWeatherOut struct {
	Location    string   `json:"location"`
	Latitude    float64  `json:"latitude"`
	Longitude   float64  `json:"longitude"`
	ObservedAt  *string  `json:"observed_at" jsonschema:"Local time of the place, with its offset from UTC."`
	Temperature *float64 `json:"temperature" jsonschema:"°C or °F."`
	Humidity    *float64 `json:"humidity" jsonschema:"Percent."`
	WindSpeed   *float64 `json:"wind_speed" jsonschema:"km/h or mph."`
	Condition   *string  `json:"condition"`
	Units       string   `json:"units" enum:"metric,imperial"`
}

// currentAnswer is the part of the service's response that get_weather needs.
type currentAnswer struct {
	OffsetSeconds *int `json:"utc_offset_seconds"`
	Current       *struct {
		Time        string   `json:"time"` // local time of the place, without an offset
		Temperature *float64 `json:"temperature_2m"`
		Humidity    *float64 `json:"relative_humidity_2m"`
		WindSpeed   *float64 `json:"wind_speed_10m"`
		Code        *int     `json:"weather_code"`
	} `json:"current"`
}

// getWeather returns the tool that reports the current weather.
func getWeather(from openMeteo) tool.Tool {
	return tool.New(tool.Spec{
		Name:        "get_weather",
		DisplayName: "Get Weather",
		Narration:   tool.Narration{Started: "Getting the weather in {location}", Completed: "Got the weather in {location}", Failed: "Could not get the weather in {location}"},
		Description: described(getWeatherText),
		Class:       perdure.Pure,
		Hints:       tool.Hints{ReadOnly: ptrTrue(), OpenWorld: ptrTrue()},
		Deadline:    deadline,
	}, from.current)
}

func (o openMeteo) current(ctx context.Context, in getWeatherIn, env tool.Env) (getWeatherOut, error) {
	q := weatherQuery{openMeteo: o, tool: "get_weather", env: env}
	at, err := q.find(ctx, in.Location)
	if err != nil {
		return getWeatherOut{}, err
	}
	units := unitsOf(in.Units)
	var answer currentAnswer
	query := url.Values{"current": {"temperature_2m,relative_humidity_2m,wind_speed_10m,weather_code"}}
	if err := q.forecast(ctx, at, units, query, &answer); err != nil {
		return getWeatherOut{}, err
	}
	now := answer.Current
	if now == nil || now.Temperature == nil && now.Code == nil {
		return getWeatherOut{}, tool.Errorf("The weather service has no current data for %s.", at.name)
	}
	return getWeatherOut{
		Location: at.name, Latitude: at.latitude, Longitude: at.longitude,
		ObservedAt: observed(now.Time, answer.OffsetSeconds), Temperature: now.Temperature, Humidity: now.Humidity,
		WindSpeed: now.WindSpeed, Condition: condition(now.Code), Units: units,
	}, nil
}

// observed formats a local time with its offset; nil if the time or the offset is missing or
// invalid.
func observed(local string, offsetSeconds *int) *string {
	if offsetSeconds == nil {
		return nil
	}
	at, err := time.ParseInLocation("2006-01-02T15:04", local, time.FixedZone("", *offsetSeconds))
	if err != nil {
		return nil
	}
	text := at.Format(time.RFC3339)
	return &text
}

// unitsOf returns the effective system of units. A call from Go may leave it out.
func unitsOf(units string) string {
	if units == imperial {
		return imperial
	}
	return metric
}
