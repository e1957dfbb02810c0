//! `strftime_now(format)` for templates that tell the model today's date. The time comes from the
//! caller; UTC.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

struct Civil {
    year: i64,
    month: i64,       // 1..=12
    day: i64,         // 1..=31
    day_of_year: i64, // 1..=366
    weekday: i64,     // 0 is Sunday
    second_of_day: i64,
}

/// Days to date in the proleptic Gregorian calendar, year by 400-year eras that begin on 1 March.
fn civil(unix_seconds: i64) -> Civil {
    let days = unix_seconds.div_euclid(86_400);
    let shifted = days + 719_468; // days since 0000-03-01
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * from_march + 2) / 153;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let day = from_march - (153 * month_from_march + 2) / 5 + 1;
    let day_of_year =
        if month <= 2 { (month - 1) * 31 + day } else { from_march + 60 + i64::from(is_leap) };
    Civil {
        year,
        month,
        day,
        day_of_year,
        weekday: (days + 4).rem_euclid(7),
        second_of_day: unix_seconds.rem_euclid(86_400),
    }
}

/// The directives of C's strftime that name a part of a date or time; others are an error with
/// their name.
pub fn strftime(format: &str, unix_seconds: i64) -> Result<String, String> {
    let now = civil(unix_seconds);
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = characters.next();
        let unpadded = directive == Some('-');
        if unpadded {
            directive = characters.next();
        }
        let Some(directive) = directive else {
            return Err(format!("strftime_now: '{format}' ends in the middle of a directive"));
        };
        let part = expand(directive, &now, unix_seconds).ok_or_else(|| {
            format!("strftime_now: unknown directive '%{directive}' in '{format}'")
        })?;
        match unpadded {
            true if part.len() > 1 => out.push_str(match part.trim_start_matches(['0', ' ']) {
                "" => "0",
                rest => rest,
            }),
            _ => out.push_str(&part),
        }
    }
    Ok(out)
}

fn expand(directive: char, now: &Civil, unix_seconds: i64) -> Option<String> {
    let (hour, minute, second) =
        (now.second_of_day / 3600, now.second_of_day / 60 % 60, now.second_of_day % 60);
    let hour_12 = (hour + 11) % 12 + 1;
    let month_name = MONTHS[(now.month - 1) as usize];
    let day_name = DAYS[now.weekday as usize];
    Some(match directive {
        'Y' => now.year.to_string(),
        'y' => format!("{:02}", now.year.rem_euclid(100)),
        'm' => format!("{:02}", now.month),
        'd' => format!("{:02}", now.day),
        'e' => format!("{:2}", now.day),
        'j' => format!("{:03}", now.day_of_year),
        'B' => month_name.to_string(),
        'b' | 'h' => month_name[..3].to_string(),
        'A' => day_name.to_string(),
        'a' => day_name[..3].to_string(),
        'u' => (if now.weekday == 0 { 7 } else { now.weekday }).to_string(),
        'w' => now.weekday.to_string(),
        'H' => format!("{hour:02}"),
        'I' => format!("{hour_12:02}"),
        'M' => format!("{minute:02}"),
        'S' => format!("{second:02}"),
        'p' => if hour < 12 { "AM" } else { "PM" }.to_string(),
        'F' => format!("{}-{:02}-{:02}", now.year, now.month, now.day),
        'D' => format!("{:02}/{:02}/{:02}", now.month, now.day, now.year.rem_euclid(100)),
        'T' => format!("{hour:02}:{minute:02}:{second:02}"),
        'R' => format!("{hour:02}:{minute:02}"),
        's' => unix_seconds.to_string(),
        'z' => "+0000".to_string(),
        'Z' => "UTC".to_string(),
        'n' => "\n".to_string(),
        't' => "\t".to_string(),
        '%' => "%".to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn dates_equal_those_of_the_c_library() {
        // date -u -d @<seconds> +'%F %j %a %H:%M:%S'
        let cases = [
            (0, "1970-01-01 001 Thu 00:00:00"),
            (951_782_400, "2000-02-29 060 Tue 00:00:00"),
            (951_868_800, "2000-03-01 061 Wed 00:00:00"),
            (1_735_689_599, "2024-12-31 366 Tue 23:59:59"),
            (4_107_542_400, "2100-03-01 060 Mon 00:00:00"),
            (-1, "1969-12-31 365 Wed 23:59:59"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(strftime("%F %j %a %H:%M:%S", seconds).unwrap(), expected);
        }
    }

    #[test]
    fn formats_that_templates_use() {
        let noon = 1_721_995_200; // 2024-07-26 12:00:00 UTC
        assert_eq!(strftime("%d %b %Y", noon).unwrap(), "26 Jul 2024");
        assert_eq!(strftime("%B %-d, %Y", 1_722_600_000).unwrap(), "August 2, 2024");
        assert_eq!(strftime("%A, %I:%M %p 100%%", noon).unwrap(), "Friday, 12:00 PM 100%");
        assert_eq!(strftime("%-H", 0).unwrap(), "0");
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        assert!(strftime("%Q", 0).unwrap_err().contains("'%Q'"));
        assert!(strftime("100%", 0).is_err());
    }
}
