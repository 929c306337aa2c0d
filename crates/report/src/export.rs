//! The files of AIM7 and re-aim, for programs that read them.

use core::fmt::Write as _;

use crate::points::{RunPoint, RunReport};

/// Version of AIM7 in the written file.
const SUITE7_VERSION: &str = "1.1";
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl RunReport {
    /// `suite7.ss` of AIM7: a heading and a row for each load point, with tabs, of which there are
    /// two before the JTI. AIM7 appends it to the file. `date` is the record's. Points that failed
    /// are left out.
    pub fn to_suite7(&self, machine: &str, date: &str) -> String {
        let date = calendar_of_c(date);
        let date = date.split_once(' ').map_or(date.as_str(), |(_weekday, date)| date);
        let mut text = format!(
            "Benchmark\tVersion\tMachine\tRun Date\n\
             AIM Multiuser Benchmark - Suite VII\t\"{SUITE7_VERSION}\"\t{machine}\t{date}\n\n\
             Tasks\tJobs/Min\tJTI\tReal\tCPU\tJobs/sec/task\n"
        );
        for point in self.whole() {
            let _ = writeln!(
                text,
                "{}\t{:.1}\t\t{:.0}\t{:.2}\t{:.2}\t{:.4}",
                point.users,
                point.jobs_per_min,
                point.jti,
                point.real_s,
                point.cpu_s,
                point.jobs_per_sec_per_task
            );
        }
        text
    }

    /// `reaim.csv` of re-aim. The standard deviation and the times of the users are in seconds.
    /// Failed points and points of a virtual machine are omitted.
    pub fn to_reaim_csv(&self) -> String {
        let mut text = "Forks,JPM,JPM_C,JPS_C,parent_tm,childU_tm,childS_tm,std_dev,JTI,max_c,\
                        min_c\n"
            .to_owned();
        text.extend(self.whole().filter_map(reaim_row));
        text
    }

    /// What AIM7 prints while it runs: a heading, a row for each load point, the date at its end,
    /// which is `date` of a record.
    pub fn to_aim7_output(&self, date: &str) -> String {
        let date = calendar_of_c(date);
        let mut text = String::from("Tasks    jobs/min  jti  jobs/min/task      real       cpu\n");
        for point in self.whole() {
            let each = point.jobs_per_min / point.users.max(1) as f64;
            let _ = writeln!(
                text,
                "{:5}{:12.2}{:5.0}{:15.4}{:10.2}{:10.2}   {date}",
                point.users, point.jobs_per_min, point.jti, each, point.real_s, point.cpu_s
            );
        }
        text
    }

    /// What re-aim prints: headings, a row of nine columns for each load point, the best of them.
    /// A virtual machine does not know all of them; its points are left out.
    pub fn to_reaim_output(&self) -> String {
        let mut text = String::from(
            "REAIM Workload\n\
             Times are in seconds - Child times from tms.cstime and tms.cutime\n\n\
             Num     Parent   Child   Child  Jobs per   Jobs/min/  Std_dev  Std_dev  JTI\n\
             Forked  Time     SysTime UTime   Minute     Child      Time     Percent \n",
        );
        text.extend(self.whole().filter_map(reaim_line));
        let best = self.whole().map(|point| point.jobs_per_min).fold(0.0, f64::max);
        let _ = writeln!(text, "Max Jobs per Minute {best:.2}");
        text
    }

    fn whole(&self) -> impl Iterator<Item = &RunPoint> {
        self.points.iter().filter(|point| point.failed.is_none())
    }
}

/// A date of a record, `2026-11-20T22:00:00Z`, as C's `ctime` writes it: `Fri Nov 20 22:00:00
/// 2026`. Other text stays as it is.
fn calendar_of_c(date: &str) -> String {
    let written = || -> Option<String> {
        let (day, time) = date.trim_end_matches('Z').split_once('T')?;
        let mut numbers = day.splitn(3, '-').map(str::parse::<usize>);
        let mut next = || numbers.next()?.ok();
        let (year, month, day) = (next()?, next()?, next()?);
        // Sakamoto's method: days of the months before, from a year that begins in March.
        let before = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4].get(month.checked_sub(1)?)?;
        let from = if month < 3 { year.checked_sub(1)? } else { year };
        let weekday = (from + from / 4 - from / 100 + from / 400 + before + day) % 7;
        let weekday = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][weekday];
        let month = MONTHS[month - 1];
        Some(format!("{weekday} {month} {day:2} {time} {year}"))
    };
    written().unwrap_or_else(|| date.to_owned())
}

fn reaim_line(point: &RunPoint) -> Option<String> {
    Some(format!(
        "{:<8}{:<8.2} {:<7.2} {:<7.2} {:<10.2} {:<10.2} {:<8.2} {:<8.2} {:<4.0} \n",
        point.users,
        point.real_s,
        point.system_s?,
        point.user_s?,
        point.jobs_per_min,
        point.jobs_per_min_per_task?,
        point.std_dev_s?,
        point.std_dev_percent?,
        point.jti,
    ))
}

fn reaim_row(point: &RunPoint) -> Option<String> {
    Some(format!(
        "{},{:.2},{:.2},{:.4},{:.4},{:.4},{:.4},{:.4},{:.0},{:.4},{:.4}\n",
        point.users,
        point.jobs_per_min,
        point.jobs_per_min_per_task?,
        point.jobs_per_sec_per_task,
        point.real_s,
        point.user_s?,
        point.system_s?,
        point.std_dev_s?,
        point.jti,
        point.longest_user_s?,
        point.shortest_user_s?
    ))
}

#[cfg(test)]
mod tests {
    use convoy_workload::record::Cause;

    use super::*;

    fn example() -> RunReport {
        let point = RunPoint {
            users: 10,
            jobs_per_min: 3000.0,
            jti: 98.0,
            real_s: 19.4,
            cpu_s: 38.5,
            jobs_per_sec_per_task: 5.0,
            jobs_per_min_per_task: Some(300.0),
            user_s: Some(30.0),
            system_s: Some(8.5),
            std_dev_s: Some(0.25),
            longest_user_s: Some(19.4),
            shortest_user_s: Some(19.0),
            ..RunPoint::default()
        };
        let failed = RunPoint { failed: Some(Cause::default()), ..point.clone() };
        RunReport {
            title: String::new(),
            inputs: None,
            points: vec![point, failed],
            notes: Vec::new(),
        }
    }

    #[test]
    fn suite7_has_tabs_and_the_heading_of_1996() {
        let text = example().to_suite7("host", "2026-11-20T22:00:00Z");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Benchmark\tVersion\tMachine\tRun Date");
        assert!(lines[1].ends_with("\t\"1.1\"\thost\tNov 20 22:00:00 2026"), "{text}");
        assert_eq!(lines[3], "Tasks\tJobs/Min\tJTI\tReal\tCPU\tJobs/sec/task");
        assert_eq!(lines[4..], ["10\t3000.0\t\t98\t19.40\t38.50\t5.0000"]);
    }

    /// Columns as wide as `multitask` of 1996 and re-aim 7 print them.
    #[test]
    fn standard_output_has_the_columns_of_both() {
        let text = example().to_aim7_output("2006-09-04T10:17:44Z");
        let row =
            "   10     3000.00   98       300.0000     19.40     38.50   Mon Sep  4 10:17:44 2006";
        assert_eq!(text.lines().nth(1), Some(row));
        assert_eq!(calendar_of_c("2028-02-29T00:00:01Z"), "Tue Feb 29 00:00:01 2028");
        assert_eq!(calendar_of_c("today"), "today");
        let point = RunPoint { std_dev_percent: Some(2.0), ..example().points[0].clone() };
        let text = RunReport { points: vec![point], ..example() }.to_reaim_output();
        let row = "10      19.40    8.50    30.00   3000.00    300.00     0.25     2.00     98   ";
        assert_eq!(text.lines().nth(5), Some(row), "{text}");
    }

    #[test]
    fn reaim_csv_has_its_columns() {
        let text = example().to_reaim_csv();
        let lines: Vec<&str> = text.lines().collect();
        let heading = "Forks,JPM,JPM_C,JPS_C,parent_tm,childU_tm,childS_tm,std_dev,JTI,max_c,min_c";
        assert_eq!(lines[0], heading);
        let row = "10,3000.00,300.00,5.0000,19.4000,30.0000,8.5000,0.2500,98,19.4000,19.0000";
        assert_eq!(lines[1..], [row]);
    }
}
