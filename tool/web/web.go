// Package web holds the three tools that read from the internet: get_weather, get_forecast and
// web_fetch (TL27).
//
// It may import the root, tool, html-to-markdown and the leaves. The one thing to know: it opens no
// connections. Every request goes through the port tool.Egress with the session's network list, and
// every response is untrusted: it is limited, decoded and cleaned before a model reads it.
package web

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// The public service that the weather tools use if Config names no other.
const (
	DefaultWeatherURL   = "https://api.open-meteo.com"
	DefaultGeocodingURL = "https://geocoding-api.open-meteo.com"
)

// Purpose is the purpose of requests of the weather tools. An operator with a weather server at a
// private address allows it for this purpose, which opens it to no other (EG3). web_fetch has no
// purpose.
const Purpose = "weather"

// deadline is the deadline of a call of these tools.
const deadline = 2 * time.Minute

// Config names the servers of the weather tools. Each URL is the part before /v1/forecast or
// /v1/search of a server with the API of Open-Meteo.
type Config struct {
	WeatherURL   string // empty: DefaultWeatherURL
	GeocodingURL string // empty: DefaultGeocodingURL
}

// Tools returns the tools, in the order in which they are listed to models. Invalid: a URL of the
// configuration is not valid.
func Tools(cfg Config) ([]tool.Tool, error) {
	s, err := newOpenMeteo(cfg)
	if err != nil {
		return nil, err
	}
	return []tool.Tool{getWeather(s), getForecast(s), WebFetch()}, nil
}

// newOpenMeteo checks the configuration.
func newOpenMeteo(cfg Config) (openMeteo, error) {
	weather, err := baseURL("WeatherURL", cfg.WeatherURL, DefaultWeatherURL)
	if err != nil {
		return openMeteo{}, err
	}
	geocoding, err := baseURL("GeocodingURL", cfg.GeocodingURL, DefaultGeocodingURL)
	if err != nil {
		return openMeteo{}, err
	}
	return openMeteo{weather: weather, geocoding: geocoding}, nil
}

func baseURL(field, text, fallback string) (*url.URL, error) {
	text = cmp.Or(text, fallback)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%w: web: %s must be an http or https URL with a host", perdure.Invalid, field)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%w: web: %s must have neither user, query nor fragment: give the part before /v1", perdure.Invalid, field)
	}
	return u, nil
}

// named returns a host as shown to the model. A bare address is hidden, because it may be internal
// (EG3).
func named(u *url.URL) string {
	if _, err := netip.ParseAddr(u.Hostname()); err == nil || u.Hostname() == "localhost" {
		return "the weather service"
	}
	return u.Hostname()
}

// described returns the tool description from its file.
func described(text string) string { return strings.TrimSpace(text) }

// ptrTrue returns a hint that is true.
func ptrTrue() *bool {
	set := true
	return &set
}
