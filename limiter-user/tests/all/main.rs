//! Tests of the settings, the arithmetic behind them, captures and `learn`: one program, so that it links once.

mod bucket_properties;
mod captures;
mod carried_over;
mod changes_properties;
mod clock_properties;
mod compile;
mod controller_properties;
mod differences;
mod exact;
mod fleet_settings;
mod learn_properties;
mod limits_of_settings;
mod quota_properties;
mod rescale_properties;
mod scale_properties;
mod shares;
mod text_properties;
mod window_properties;
