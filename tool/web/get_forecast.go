package web

import (
	"cmp"
	"context"
	_ "embed" // the text that the model reads
	"net/url"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed get_forecast.md
var getForecastText string

// defaultDays is the default number of days of a forecast.
const defaultDays = 3

type getForecastIn struct {
	Location string `json:"location" minLength:"1" maxLength:"200" jsonschema:"A place name such as Berlin, a postal code, or coordinates such as 52.52,13.41."`
	Days     int    `json:"days,omitempty" min:"1" max:"14" default:"3" jsonschema:"Number of days, starting today."`
	Units    string `json:"units,omitempty" enum:"metric,imperial" default:"metric"`
}

// forecastDay has pointers for values that the service may not have: these become null instead of
// 0.
type forecastDay struct {
	Date          string   `json:"date"`
	Min           *float64 `json:"min" jsonschema:"°C or °F."`
	Max           *float64 `json:"max" jsonschema:"°C or °F."`
	Precipitation *float64 `json:"precipitation" jsonschema:"mm or inches."`
	Condition     *string  `json:"condition"`
}

type getForecastOut struct {
	Location string        `json:"location"`
	Units    string        `json:"units" enum:"metric,imperial"`
	Days     []forecastDay `json:"days"`
}

// dailyAnswer is the part of the service's response that get_forecast needs: one list for each
// value, with one element for each day.
type dailyAnswer struct {
	Daily struct {
		Dates         []string   `json:"time"`
		Min           []*float64 `json:"temperature_2m_min"`
		Max           []*float64 `json:"temperature_2m_max"`
		Precipitation []*float64 `json:"precipitation_sum"`
		Codes         []*int     `json:"weather_code"`
	} `json:"daily"`
}

// getForecast returns the tool that reports the weather of the coming days.
func getForecast(from openMeteo) tool.Tool {
	return tool.New(tool.Spec{
		Name:        "get_forecast",
		DisplayName: "Get Forecast",
		Narration:   tool.Narration{Started: "Getting the forecast for {location}", Completed: "Got the forecast for {location}", Failed: "Could not get the forecast for {location}"},
		Description: described(getForecastText),
		Class:       perdure.Pure,
		Hints:       tool.Hints{ReadOnly: ptrTrue(), OpenWorld: ptrTrue()},
		Deadline:    deadline,
	}, from.days)
}

func (o openMeteo) days(ctx context.Context, in getForecastIn, env tool.Env) (getForecastOut, error) {
	in.Days = cmp.Or(in.Days, defaultDays)
	q := weatherQuery{openMeteo: o, tool: "get_forecast", env: env}
	at, err := q.find(ctx, in.Location)
	if err != nil {
		return getForecastOut{}, err
	}
	out := getForecastOut{Location: at.name, Units: unitsOf(in.Units)}
	var answer dailyAnswer
	query := url.Values{
		"daily":         {"weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum"},
		"forecast_days": {strconv.Itoa(in.Days)},
	}
	if err := q.forecast(ctx, at, out.Units, query, &answer); err != nil {
		return getForecastOut{}, err
	}
	d := answer.Daily
	for i, date := range d.Dates[:min(len(d.Dates), in.Days)] {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			return getForecastOut{}, unreadable()
		}
		out.Days = append(out.Days, forecastDay{
			Date: date, Min: valueAt(d.Min, i), Max: valueAt(d.Max, i),
			Precipitation: valueAt(d.Precipitation, i), Condition: condition(valueAt(d.Codes, i)),
		})
	}
	if len(out.Days) == 0 {
		return getForecastOut{}, tool.Errorf("The weather service has no forecast for %s at the moment.", at.name)
	}
	return out, nil
}

// valueAt returns the value of a day; nil if the list is too short.
func valueAt[T any](values []*T, day int) *T {
	if day >= len(values) {
		return nil
	}
	return values[day]
}
